"""Records that arrive, as rows: read, checked and packed before any database is asked. Pure.

The content of a record is its canonical JSON: keys sorted, no spaces. Its SHA-256 says whether it is there already.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.gate.differences import environment_key
from qwenperf.gate.verdict import worst
from qwenperf.schema.codec import comparison_from_json, from_json
from qwenperf.schema.comparison import COMPARISON_SCHEMA, ComparisonRecord
from qwenperf.schema.hints import show
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict
from qwenperf.service.depth import check_depth
from qwenperf.service.texts import label, record_name, words
from qwenperf.service.times import measured
from qwenperf.service.writing_json import compact
from qwenperf.store.rows import PointRow, Rows, moment, rows_of

CASES_LIMIT, METRICS_LIMIT = 2000, 1000
LARGEST = 1e150
"""The square of a value, and means of many, must be numbers still."""

_LEVEL = 3
"""Of compression: a record shrinks to a tenth at any level, and time counts here."""

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Content:
    """A record as it is kept: ``body`` compressed, ``size`` in bytes before."""

    sha256: str
    body: bytes
    size: int


@dataclass(frozen=True, kw_only=True)
class ArrivedRun:
    """A run as rows: of ``runs``, ``cases`` and ``verdicts``, and its points, which have no series yet."""

    name: str
    content: Content
    run: Values
    cases: Sequence[Values]
    verdicts: Sequence[Values]
    points: Sequence[PointRow]


@dataclass(frozen=True, kw_only=True)
class ArrivedComparison:
    """A comparison as rows of ``comparisons`` and ``verdicts``."""

    name: str
    content: Content
    comparison: Values
    verdicts: Sequence[Values]


def read_record(data: bytes, source: str = "the record") -> ArrivedRun | ArrivedComparison:
    """Read a ``run.json`` or ``comparison.json``.

    Raises:
      RecordError: it is neither, or holds what no measurement gives; names the key path and what was seen.
    """
    document = parse(data, source)
    if isinstance(document, Mapping) and document.get("schema") == COMPARISON_SCHEMA:
        return arrived_comparison(comparison_from_json(document, source), pack(document))
    return arrived_run(from_json(document, source), pack(document))


def parse(data: bytes, source: str) -> Any:
    """Return JSON data.

    Raises:
      RecordError: it is not JSON, not UTF-8, nested too deeply, or has numbers that are not finite.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except RecursionError:
        raise RecordError(f"{source} is nested too deeply.") from None
    except ValueError as error:
        raise RecordError(f"{source} is not JSON: {error}.", advice="Was it cut short?") from error
    check_depth(found, source)
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no finite number")


def pack(document: Any) -> Content:
    """Return JSON data as it is kept."""
    text = compact(document).encode()
    return Content(sha256=hashlib.sha256(text).hexdigest(), body=zlib.compress(text, _LEVEL), size=len(text))


def unpack(body: bytes) -> Any:
    """Return the JSON data that ``pack`` packed."""
    return json.loads(unpack_text(body))


def unpack_text(body: bytes) -> bytes:
    """Return the JSON text that ``pack`` packed."""
    return zlib.decompress(body)


def arrived_run(run: RunRecord, content: Content) -> ArrivedRun:
    """Return a run as rows; errors as ``read_record``."""
    name = record_name(run.id, "id")
    rows = rows_of(run, name)
    _check_sizes(run)
    _check_values(rows.points)
    return ArrivedRun(
        name=name,
        content=content,
        run=_run_values(run, rows),
        cases=[_case_values(case) for case in run.cases],
        verdicts=[value for case in run.cases for value in verdict_values(case.id, case.verdicts)],
        points=rows.points,
    )


def judged(run: RunRecord) -> Values:
    """Return the parts of an ``ArrivedRun`` that gates decide, of a run that was judged anew."""
    rows = rows_of(run, run.id)
    verdicts = [value for case in run.cases for value in verdict_values(case.id, case.verdicts)]
    return {"run": _run_values(run, rows), "verdicts": verdicts}


def _check_sizes(run: RunRecord) -> None:
    if len(run.cases) > CASES_LIMIT:
        raise RecordError(f"the run has {len(run.cases)} cases; {CASES_LIMIT} are taken.", advice="Send several runs.")
    for index, case in enumerate(run.cases):
        label(case.id, f"cases[{index}].id")
        if len(case.metrics) > METRICS_LIMIT:
            raise RecordError(f"cases[{index}] has {len(case.metrics)} metrics; {METRICS_LIMIT} are taken.")
        for name, metric in case.metrics.items():
            label(name, f"cases[{index}].metrics")
            label(metric.unit or "-", f"cases[{index}].metrics.{name}.unit")
            if abs(metric.value) > LARGEST:
                raise RecordError(f"cases[{index}].metrics.{name}.value is {show(metric.value)}; nothing is so large.")
        if abs(case.wall_s or 0.0) > LARGEST:
            raise RecordError(f"cases[{index}].wall_s is {show(case.wall_s)}; nothing is so large.")


def _check_values(points: Sequence[PointRow]) -> None:
    """Refuse what the mean of a window could not hold, also where it is no metric's own value."""
    for point in points:
        for value in (point.value, point.low, point.high):
            if abs(value or 0.0) > LARGEST:
                raise RecordError(f"{point.metric} of {point.case} has {show(value)}; nothing is so large.")


def _run_values(run: RunRecord, rows: Rows) -> Values:
    outcomes = [verdict.outcome for case in run.cases for verdict in case.verdicts]
    stored = rows.run
    at = measured(stored.at, "commit.committed_at" if stored.committed_at else "created_at")
    return {
        "suite": words(run.suite, 200),
        "at": at,
        "measured_at": measured(rows.measured, "created_at"),
        "committed_at": at if stored.committed_at else None,
        "commit": words(stored.commit, 100),
        "branch": words(stored.branch, 300),
        "environment": stored.environment,
        "cases": len(run.cases),
        "failed": sum(case.status is not Status.MEASURED for case in run.cases),
        "outcome": _outcome(outcomes),
        "interrupted": run.interrupted,
    }


def _case_values(case: CaseRecord) -> Values:
    return {
        "name": case.id,
        "status": str(case.status),
        "error": None if case.error is None else words(case.error),
        "trace": None if case.trace is None else words(case.trace, 500),
        "wall_s": case.wall_s,
    }


def verdict_values(case: str, verdicts: Iterable[Verdict]) -> list[Values]:
    """Return verdicts on a case as rows."""
    return [
        {
            "case": words(case),
            "gate": words(verdict.gate, 200),
            "outcome": str(verdict.outcome),
            "summary": words(verdict.summary),
            "detail": words("\n".join(verdict.detail)),
            "advice": words(verdict.advice),
        }
        for verdict in verdicts
    ]


def arrived_comparison(comparison: ComparisonRecord, content: Content) -> ArrivedComparison:
    """Return a comparison as rows; errors as ``read_record``."""
    name = record_name(comparison.id, "id")
    if len(comparison.cases) > CASES_LIMIT:
        raise RecordError(f"the comparison has {len(comparison.cases)} cases; {CASES_LIMIT} are taken.")
    for index, case in enumerate(comparison.cases):
        label(case.id, f"cases[{index}].id")
    verdicts = verdict_values("", comparison.verdicts)
    verdicts += [value for case in comparison.cases for value in verdict_values(case.id, case.verdicts)]
    return ArrivedComparison(
        name=name,
        content=content,
        comparison={
            "base_label": words(comparison.base.label, 300),
            "head_label": words(comparison.head.label, 300),
            "base_commit": words(comparison.base.commit.get("sha"), 100),
            "head_commit": words(comparison.head.commit.get("sha"), 100),
            "environment": environment_key(comparison.head.environment),
            "outcome": _outcome(Outcome(value["outcome"]) for value in verdicts),
            "cases": len(comparison.cases),
            "created_at": measured(moment(comparison.created_at, "created_at"), "created_at"),
        },
        verdicts=verdicts,
    )


def _outcome(outcomes: Iterable[Outcome]) -> str:
    return str(worst(outcomes) or "")
