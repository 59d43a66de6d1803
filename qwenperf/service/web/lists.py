"""Runs and comparisons as lists, and the matrix of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import nearest_advice
from qwenperf.service.context import service_of
from qwenperf.service.db import comparisons, runs
from qwenperf.service.times import DAY_US
from qwenperf.service.web import asked, queries
from qwenperf.service.web.pages import opened, page

_LISTED = 50
_STALE_US = 7 * DAY_US


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The newest value of one case."""

    case: str
    value: float
    unit: str
    at: int
    outcome: str
    old: bool


@dataclass(kw_only=True)
class Group:
    """The cases of one model: a row a workload, a column an engine. Without a name: cases that are not called so."""

    name: str
    columns: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[str, dict[str, Cell]]]:
        """Rows by name."""
        return sorted(self.cells.items())


def list_runs(request: Request) -> Response:
    """List runs, the newest first."""
    _, project = opened(request)
    wanted = {name: asked.text(request, name) for name in ("branch", "commit", "environment")}
    behind = asked.cursor(request)
    with service_of(request).database.read() as connection:
        rows = runs.recent(
            connection,
            project.id,
            limit=_LISTED + 1,
            behind=behind,
            branch=wanted["branch"] or None,
            commit=wanted["commit"] or None,
            environment=wanted["environment"] or None,
        )
        branches = queries.branches(connection, project.id)
    return page(
        request,
        "runs.html",
        project=project,
        rows=rows[:_LISTED],
        older=_older(rows, "at"),
        asked=wanted,
        branches=branches,
        here="runs",
    )


def list_comparisons(request: Request) -> Response:
    """List comparisons, the newest first."""
    _, project = opened(request)
    behind = asked.cursor(request)
    with service_of(request).database.read() as connection:
        rows = comparisons.recent(connection, project.id, limit=_LISTED + 1, behind=behind)
    older = _older(rows, "created_at")
    return page(request, "comparisons.html", project=project, rows=rows[:_LISTED], older=older, here="comparisons")


def _older(rows: Sequence[Row[Any]], time: str) -> str:
    return f"{getattr(rows[_LISTED - 1], time)}-{rows[_LISTED - 1].id}" if len(rows) > _LISTED else ""


def matrix(request: Request) -> Response:
    """Show the newest value of one metric of every case."""
    _, project = opened(request)
    metric = asked.text(request, "metric")
    with service_of(request).database.read() as connection:
        metrics = queries.metrics_of(connection, project.id)
        known = [one.metric for one in metrics]
        usual = next((one for one in queries.KEY_METRICS if one in known), known[0] if known else "")
        chosen = metric if metric in known else "" if metric else usual
        rows = queries.newest_of(connection, project.id, [chosen]) if chosen else []
        newest = queries.newest_run_at(connection, project.id) or 0
        bad = queries.bad_verdicts(connection, [one.last_run_id for one in rows if one.last_run_id is not None])
    groups = arranged(rows, bad, newest - _STALE_US)
    absent = f"There is no metric {metric!r} here. {nearest_advice(metric, known)}" if metric and not chosen else ""
    shown: dict[str, Any] = {"metrics": metrics, "metric": chosen, "groups": groups, "absent": absent}
    return page(request, "matrix.html", project=project, here="matrix", **shown)


def arranged(rows: Sequence[Row[Any]], bad: dict[tuple[int, str], str], old_before: int) -> list[Group]:
    """Return the newest values by model, workload and engine."""
    groups: dict[str, Group] = {}
    for one in rows:
        model, workload, engine = split(one.case)
        group = groups.setdefault(model, Group(name=model))
        if engine not in group.columns:
            group.columns.append(engine)
        group.cells.setdefault(workload, {})[engine] = Cell(
            case=one.case,
            value=one.last_value,
            unit=one.unit,
            at=one.last_at,
            outcome=bad.get((one.last_run_id, one.case), ""),
            old=one.last_at < old_before,
        )
    return [groups[name] for name in sorted(groups, key=lambda name: (not name, name))]


def split(case: str) -> tuple[str, str, str]:
    """Return model, workload and engine of a case that is called ``model/engine/workload``; any other is a row."""
    parts = case.rsplit("/", 2)
    return (parts[0], parts[2], parts[1]) if len(parts) == 3 else ("", case, "newest")
