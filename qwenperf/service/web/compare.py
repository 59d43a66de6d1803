"""Two runs side by side: every metric of every case, and the difference of their traces by operation.

They were measured at different times, so what is timed is told and not judged; ``qwenperf compare`` measures together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf import units
from qwenperf.errors import RecordError
from qwenperf.gate.differences import incomparable
from qwenperf.report.html_diff import DiffView, diff_view
from qwenperf.report.html_facts import Both, both
from qwenperf.report.html_signs import Sign, of_case
from qwenperf.schema.codec import from_json
from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.records import CaseRecord, Metric, RunRecord
from qwenperf.service.context import service_of
from qwenperf.service.db import runs
from qwenperf.service.problems import Problem
from qwenperf.service.web import asked, links
from qwenperf.service.web.pages import opened, page

_TOKEN = "tpot_s"  # noqa: S105  (a metric)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """One metric on both sides. ``apart``: the intervals do not touch, or an exact number differs."""

    name: str
    base: str
    head: str
    ratio: float | None
    better: bool | None
    apart: bool


@dataclass(frozen=True, kw_only=True)
class CasePair:
    """One case of either run."""

    id: str
    base: Sign | None
    head: Sign | None
    metrics: tuple[Beside, ...]
    diff: DiffView | None
    note: str

    @property
    def moved(self) -> bool:
        """Whether anything is told apart."""
        return any(one.apart for one in self.metrics)


def show(request: Request) -> Response:
    """Show two runs, or ask which."""
    _, project = opened(request)
    names = asked.text(request, "base"), asked.text(request, "head")
    with service_of(request).database.read() as connection:
        recent = runs.recent(connection, project.id, limit=100)
        if not all(names):
            return page(request, "compare.html", project=project, recent=recent, sides=None, here="comparisons")
        rows = [_row(connection, project.id, name) for name in names]
        base, head = (from_json(runs.record(connection, row.record_id), row.name) for row in rows)
    return page(
        request,
        "compare.html",
        project=project,
        recent=recent,
        sides=rows,
        incomparable=incomparable(rows[0].environment, rows[1].environment),
        cases=list(paired(base, head)),
        environment=_different(base, head),
        changes=links.changes(project.repository, rows[0].commit, rows[1].commit),
        here="comparisons",
    )


def _row(connection: Connection, project_id: int, name: str) -> Row[Any]:
    row = runs.by_name(connection, project_id, name)
    if row is None:
        raise Problem(404, "There is no such run in this project.", "The list of runs has all of them.")
    return row


def _different(base: RunRecord, head: RunRecord) -> tuple[Both, ...]:
    return tuple(one for one in both(base.environment, head.environment) if one.differs)


def paired(base: RunRecord, head: RunRecord) -> Iterator[CasePair]:
    """Yield the cases of both runs, those that differ first."""
    old, new = ({case.id: case for case in run.cases} for run in (base, head))
    found = [_pair(name, old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))]
    yield from sorted(found, key=lambda one: not one.moved)


def _pair(name: str, base: CaseRecord | None, head: CaseRecord | None) -> CasePair:
    before = base.metrics if base is not None else {}
    after = head.metrics if head is not None else {}
    diff, note = _traces(base, head)
    return CasePair(
        id=name,
        base=of_case(base) if base is not None else None,
        head=of_case(head) if head is not None else None,
        metrics=tuple(beside(one, before.get(one), after.get(one)) for one in dict.fromkeys((*before, *after))),
        diff=diff,
        note=note,
    )


def beside(name: str, base: Metric | None, head: Metric | None) -> Beside:
    """Return one metric of both sides as texts, and whether the two can be told apart."""
    ratio = None if base is None or head is None or not base.value else head.value / base.value
    apart = base is not None and head is not None and _apart(base, head)
    better = None
    ordered = head is not None and head.direction is not Direction.NONE and name not in ROUNDING
    if apart and base is not None and head is not None and ordered:
        better = (head.value < base.value) is (head.direction is Direction.LOWER)
    return Beside(name=name, base=_text(base), head=_text(head), ratio=ratio, better=better, apart=apart)


def _apart(base: Metric, head: Metric) -> bool:
    if head.kind is Kind.DETERMINISTIC:
        return base.value != head.value
    if base.interval is None or head.interval is None:
        return False
    return base.interval[1] < head.interval[0] or head.interval[1] < base.interval[0]


def _text(metric: Metric | None) -> str:
    return "-" if metric is None else units.quantity(metric.value, metric.unit)


def _traces(base: CaseRecord | None, head: CaseRecord | None) -> tuple[DiffView | None, str]:
    if base is None or head is None:
        return None, ""
    old, new = base.evidence.trace_summary, head.evidence.trace_summary
    if old is None or new is None:
        return None, "Without a trace on both sides there is no difference by operation."
    timed = {
        side: case.metrics[_TOKEN].value for side, case in (("base", base), ("head", head)) if _TOKEN in case.metrics
    }
    try:
        return diff_view(old, new, timed), ""
    except RecordError as error:
        return None, f"The traces cannot be compared: {error}"
