"""A run as rows of an index: what a history shows of it, and nothing of its evidence. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.gate.environment import environment_class
from qwenperf.schema.codec import from_json
from qwenperf.schema.hints import show
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import Metric, RunRecord, Status
from qwenperf.schema.times import utc
from qwenperf.store.base import StoredRun
from qwenperf.store.told import environment_of, reading_of, version_of

CANARIES = {"roofline_bytes_per_s": "bytes/s", "roofline_flops_per_s": "flop/s"}
"""Series of what a machine could do at best when a case was measured, and their units: a step there is the machine's.

They come from the evidence of a case and are no metrics of it.
"""

_UNREAD = ("verdicts", "findings")
"""Parts of a case that are none of its history; of the evidence only the roofline is."""

_READINGS = "readings of the index"
"""Key under which the number of samples is kept where they were left out."""


@dataclass(frozen=True, kw_only=True)
class PointRow:
    """One value of one metric of one case of a run.

    ``reading`` tells it from others that a growing file has told; ``version`` is of asv's benchmark: of another version
    a value is of something else.
    """

    case: str
    metric: str
    unit: str
    direction: str
    kind: str
    value: float
    low: float | None
    high: float | None
    coverage: float | None
    samples: int
    trace: str | None
    reading: str | None = None
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A run and its points. ``measured`` is when it was measured, in seconds since 1970."""

    run: StoredRun
    measured: float
    points: tuple[PointRow, ...]


def rows_from(data: bytes, folder: str, source: str) -> Rows:
    """Read the history's part of a ``run.json``; what is wrong with the rest is not noticed here.

    Raises:
      RecordError: no run, or one that this version cannot read; names the file and the key.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source} is not JSON: {error}.", advice="Was it cut short?") from error
    cases = document.get("cases") if isinstance(document, dict) else None
    for case in cases if isinstance(cases, list) else ():
        if isinstance(case, dict):
            for name in _UNREAD:
                case.pop(name, None)
            evidence = case.get("evidence")
            if isinstance(evidence, dict):
                case["evidence"] = {name: part for name, part in evidence.items() if name == "roofline"}
            for metric in _metrics(case):
                metric.pop(_READINGS, None)
                readings = metric.get("samples")
                if isinstance(readings, list):
                    # Their number is enough: reading thousands takes longer than all the rest.
                    metric["samples"], metric[_READINGS] = [], len(readings)
    return rows_of(from_json(document, source), folder, source)


def _metrics(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    metrics = case.get("metrics")
    if isinstance(metrics, dict):
        yield from (metric for metric in metrics.values() if isinstance(metric, dict))


def rows_of(run: RunRecord, folder: str, source: str = "") -> Rows:
    """Return the rows of a run.

    Raises:
      RecordError: a time that is none, or text where something else is needed; names the key.
    """
    prefix = f"{source}: " if source else ""
    measured = moment(run.created_at, f"{prefix}created_at")
    commit = {name: _text(run.commit, name, prefix) for name in ("sha", "branch", "committed_at")}
    at = moment(commit["committed_at"], f"{prefix}commit.committed_at") if commit["committed_at"] else measured
    environment = environment_of(run)
    known = any(run.environment.get(name) for name in ("platform", "machine", "device_kind"))
    stored = StoredRun(
        run=run.id,
        folder=folder,
        at=at,
        measured_at=run.created_at,
        suite=run.suite,
        commit=commit["sha"],
        committed_at=commit["committed_at"],
        branch=commit["branch"],
        dirty=run.commit.get("dirty") is True,
        environment=environment,
        environment_class=environment_class(run.environment) if known else "",
        cases=len(run.cases),
        interrupted=run.interrupted,
    )
    rows = Rows(run=stored, measured=measured, points=tuple(_points(run, environment)))
    _check_text(rows, prefix)
    return rows


def moment(text: str, name: str = "time") -> float:
    """Return an ISO 8601 time as seconds since 1970; one without a zone is read as UTC.

    Raises:
      RecordError: it is no such time.
    """
    try:
        return utc(text).timestamp()
    except ValueError:
        advice = "It is written like 2026-11-28T08:30:00+00:00."
        raise RecordError(f"{name} is {show(text)}, which is no time.", advice=advice) from None


def _points(run: RunRecord, environment: str) -> Iterator[PointRow]:
    for case in run.cases:
        if case.status is Status.MEASURED:
            reading, version = reading_of(run, case, environment), version_of(run, case)
            for name, metric in case.metrics.items():
                yield _point(case.id, name, metric, case.trace, reading=reading, version=version)
            roofline = case.evidence.roofline
            for name, unit in CANARIES.items() if roofline is not None else ():
                if name in case.metrics:
                    continue  # of this name the case has its own
                value = getattr(roofline, name.removeprefix("roofline_"))
                ceiling = Metric(value=value, unit=unit, direction=Direction.HIGHER, kind=Kind.TIMED)
                yield _point(case.id, name, ceiling, None)


def _point(
    case: str, name: str, metric: Metric, trace: str | None, *, reading: str | None = None, version: str = ""
) -> PointRow:
    low, high = metric.interval or (None, None)
    count = metric.extra.get(_READINGS)
    return PointRow(
        case=case,
        metric=name,
        unit=metric.unit,
        direction=str(metric.direction),
        kind=str(metric.kind),
        value=metric.value,
        low=low,
        high=high,
        coverage=metric.coverage,
        samples=max(1, count if isinstance(count, int) else len(metric.samples)),
        trace=trace,
        reading=reading,
        version=version,
    )


def _check_text(rows: Rows, prefix: str) -> None:
    """Refuse half a character, which JSON can hold and neither an index nor a terminal can."""
    run = rows.run
    words = [run.run, run.suite, run.measured_at, run.commit, run.branch, run.committed_at, run.environment_class]
    for point in rows.points:
        words += (point.case, point.metric, point.unit, point.trace or "")
    try:
        "".join(words).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"{prefix}{show(error.object[error.start])} is half a character.") from None


def _text(commit: Mapping[str, Any], name: str, prefix: str) -> str:
    value = commit.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordError(f"{prefix}commit.{name} is {show(value)}, which is not text.")
    return value or ""
