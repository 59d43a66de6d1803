"""Writes budgets from a run: what was measured, with the room that its kind of metric needs."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterator, Mapping

from qwenperf.gate.environment import environment_class
from qwenperf.gate.limits import reading
from qwenperf.gate.throughput import find_rung
from qwenperf.gate.verdict import worst
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Metric, Outcome, RunRecord, Status
from qwenperf.workloads.case import REFERENCE_RUNGS

HEADROOM = 0.20
"""Room for timed metrics: runs on one machine under changing load differ by this much. Deterministic ones get none."""

METRICS = (
    "decode_tokens_per_s",
    "ttft_s",
    "compiles_cold",
    "dispatches_per_token",
    "kv_cache_allocated_bytes",
    "temp_bytes",
    "peak_bytes",
)
"""What gets a budget: the speed people ask about, and the facts about the program that explain it."""

BASE_RUNG = "naive"


def propose(run: RunRecord) -> str:
    """Return TOML text of budgets that ``run`` itself keeps.

    A case that was not measured or that a gate failed is left out with a comment: a budget must not bless what is
    broken. Reference rungs get none.
    """
    peers = {case.id: case for case in run.cases}
    parts = [f"# Proposed from run {_comment(run.id)}: timed limits with {HEADROOM:.0%} of room, others exact."]
    for case in peers.values():
        if case.spec.get("engine") in REFERENCE_RUNGS:
            continue
        reason = _unfit(case)
        parts.append(
            f"# {_comment(case.id)} left out: {reason}"
            if reason
            else _table(case, peers, environment_class(run.environment))
        )
    return "\n\n".join(parts) + "\n"


def _unfit(case: CaseRecord) -> str:
    if case.status is not Status.MEASURED:
        return case.status.value.replace("_", " ")
    if worst(verdict.outcome for verdict in case.verdicts) is Outcome.FAIL:
        return ", ".join(verdict.gate for verdict in case.verdicts if verdict.outcome is Outcome.FAIL) + " failed"
    return "" if any(name in case.metrics for name in METRICS) else "nothing to set a budget on"


def _table(case: CaseRecord, peers: Mapping[str, CaseRecord], environment: str) -> str:
    lines = [f"[tool.qwenperf.budgets.{_quote(glob.escape(case.id))}]", f"environment = {_quote(environment)}"]
    lines += [f"{name} = {_limit(case.metrics[name])}" for name in METRICS if name in case.metrics]
    return "\n".join([*lines, *_relative(case, peers)])


def _limit(metric: Metric) -> str:
    least = metric.direction is Direction.HIGHER
    bound = metric.value
    if metric.kind is Kind.TIMED:
        bound = _rounded(bound * (1 - HEADROOM if least else 1 + HEADROOM), up=not least)
    return f"{{ {'min' if least else 'max'} = {_number(bound)} }}"


def _relative(case: CaseRecord, peers: Mapping[str, CaseRecord]) -> Iterator[str]:
    """Yield the limits that hold on any machine."""
    seen, peer = case.metrics.get("decode_tokens_per_s"), find_rung(case, BASE_RUNG, peers)
    base = peer.metrics.get("decode_tokens_per_s") if peer else None
    if seen and base and base.value > 0:
        factor = _rounded((1 - HEADROOM) * reading(seen).value / reading(base).value, up=False)
        yield f"min_times = {{ rung = {_quote(BASE_RUNG)}, factor = {_number(factor)} }}"


def _rounded(value: float, *, up: bool) -> float:
    """Round to 3 digits, away from what was measured."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return float(f"{(math.ceil if up else math.floor)(value / step) * step:.3g}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    # What JSON leaves as it is, TOML wants escaped: DEL and other characters that nobody sees.
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


def _comment(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
