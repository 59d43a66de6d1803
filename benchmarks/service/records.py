"""Runs to send: as large as a real one with many metrics, each with an id and values of its own; and comparisons."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

FIRST = datetime(2016, 1, 1, tzinfo=UTC)
"""Long ago: none of a million runs comes from the future."""

MINUTES = 5
"""Between two runs."""

_SIDES = ("base", "head")
_DRAWN = random.Random(0)  # noqa: S311  (noise, not secrets)
_NOISE = tuple(_DRAWN.gauss(0.0, 0.01) for _ in range(997))
"""As timings vary on a quiet machine: 1%, and no two points of one series alike for as long as anybody looks."""


def run(number: int, *, cases: int = 1, metrics: int = 50, series: int = 0) -> dict[str, Any]:
    """Return run ``number`` with ``metrics`` metrics of each of ``cases`` cases; ``series``: another set of cases."""
    at = (FIRST + timedelta(minutes=MINUTES * number)).isoformat()
    names = [f"model-{series}/engine-{case}/b1-p128-n128-f32" for case in range(cases)]
    return {
        "id": f"run-{series}-{number:07d}",
        "created_at": at,
        "suite": "load",
        "schema": "qwenperf.run.v1",
        "environment": {"platform": "cpu", "cpu_model": "any", "cores": 2, "kernel": "6.1"},
        "commit": {"sha": f"{number:040x}", "branch": "main", "committed_at": at},
        "declared": names,
        "cases": [_case(name, number, metrics) for name in names],
    }


def _case(name: str, number: int, metrics: int) -> dict[str, Any]:
    found = {f"metric_{index:02d}_s": _metric(reading(number, index)) for index in range(metrics)}
    verdict = {"gate": "shapes", "outcome": "pass", "summary": "0 compiles after warm-up"}
    return {"id": name, "spec": {"model": "any"}, "metrics": found, "verdicts": [verdict], "wall_s": 3.0}


def reading(number: int, index: int) -> float:
    """Return what metric ``index`` is in run ``number``: its level, with noise."""
    return (1.0 + index) * (1.0 + _NOISE[(31 * number + 17 * index) % len(_NOISE)])


def _metric(value: float) -> dict[str, Any]:
    samples = [value * factor for factor in (0.99, 1.0, 1.01)]
    return {
        "value": value,
        "unit": "s",
        "direction": "lower",
        "kind": "timed",
        "samples": samples,
        "interval": [samples[0], samples[-1]],
    }


def text(number: int, **size: int) -> bytes:
    """Return run ``number`` as JSON text."""
    return json.dumps(run(number, **size)).encode()


def compiles(number: int, cases: Iterable[int], count: int) -> bytes:
    """Return run ``number`` of some cases as JSON text, each with one metric that knows no noise."""
    found = run(number, cases=0)
    metric = {"value": count, "unit": "count", "direction": "lower", "kind": "deterministic"}
    found["declared"] = [f"model/engine-{case}/b1-p128-n128-f32" for case in cases]
    found["cases"] = [
        {"id": name, "spec": {"model": "any"}, "metrics": {"compiles_steady": metric}, "wall_s": 3.0}
        for name in found["declared"]
    ]
    return json.dumps(found).encode()


def comparison_text(number: int) -> bytes:
    """Return comparison ``number``, of one case with one verdict, as JSON text."""
    case = _case("model/engine/b1-p128-n128-f32", number, 0)
    sides = {name: {"label": name, "kind": "revision", "commit": {"sha": f"{number:040x}"}} for name in _SIDES}
    told = {"id": f"comparison-{number:07d}", "created_at": FIRST.isoformat(), "schema": "qwenperf.comparison.v1"}
    return json.dumps({**told, **sides, "cases": [{"id": case["id"], "verdicts": case["verdicts"]}]}).encode()
