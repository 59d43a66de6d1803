"""Runs as OpenMetrics text, for Prometheus and whatever scrapes or pushes it. Out only: a scrape is no record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import time_of
from qwenperf.formats.place import Document
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import CaseRecord, RunRecord

TOOL = "openmetrics"
TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def write(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return one exposition: a gauge a metric, labels for case, suite, run and commit, the time of the run.

    Raises:
      FormatError: no metric at all, or two whose names are one to OpenMetrics.
    """
    samples: dict[str, list[str]] = {}
    about: dict[str, tuple[str, str]] = {}
    for run in runs:
        for case in run.cases:
            for name, metric in case.metrics.items():
                family = f"qwenperf_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}"
                known = about.setdefault(family, (name, metric.unit))
                if known != (name, metric.unit):
                    raise FormatError(
                        f"{name!r} in {metric.unit!r} and {known[0]!r} in {known[1]!r} would both be {family}.",
                        advice="Convert them into files of their own.",
                    )
                samples.setdefault(family, []).append(f"{family}{_labels(run, case)} {metric.value!r} {_time(run)}")
    if not samples:
        raise FormatError("there is no metric to write.", advice="An empty exposition hides that nothing was measured.")
    return (Document(name="", text="".join(f"{line}\n" for line in _lines(samples, about))),)


def _lines(samples: dict[str, list[str]], about: dict[str, tuple[str, str]]) -> Iterator[str]:
    for family, lines in samples.items():
        name, unit = about[family]
        told = REGISTRY[name].description if name in REGISTRY else name
        yield f"# TYPE {family} gauge"
        yield f"# HELP {family} {_escape(f'{told} In {unit}.' if unit else told)}"
        yield from lines
    yield "# EOF"


def _labels(run: RunRecord, case: CaseRecord) -> str:
    labels = {"case": case.id, "suite": run.suite, "run": run.id, "commit": str(run.commit.get("sha") or "")}
    return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items() if value) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _time(run: RunRecord) -> str:
    return f"{datetime.fromisoformat(time_of(run)).timestamp():.3f}"
