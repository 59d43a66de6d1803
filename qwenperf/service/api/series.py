"""Series: which there are, windows of them, and two runs side by side."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection, Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import UsageError
from qwenperf.gate.differences import incomparable
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import project_for, required, text_of, time_of, whole_of
from qwenperf.service.context import service_of
from qwenperf.service.db import points, runs, series
from qwenperf.service.problems import NotFoundError
from qwenperf.service.times import iso


def listed(request: Request) -> Response:
    """List the series of a project by case and metric."""
    limit = whole_of(request, "limit", 1000, 1, 10_000)
    after = text_of(request, "after_case"), text_of(request, "after_metric")
    behind = (after[0] or "", after[1] or "") if after[0] or after[1] else None
    case, metric = text_of(request, "case"), text_of(request, "metric")
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = series.catalogue(connection, project.id, case=case, metric=metric, after=behind, limit=limit + 1)
    return shapes.answer({"series": [shapes.series(row) for row in rows[:limit]], "more": len(rows) > limit})


def series_for(connection: Connection, project: Row[Any], case: str, metric: str) -> Row[Any]:
    """Return one series.

    Raises:
      NotFoundError: nothing of this name was ever measured.
    """
    row = series.by_name(connection, project.id, case, metric)
    if row is None:
        raise NotFoundError(f"project {project.name!r} has no {metric} of {case}.", advice="List its series.")
    return row


def window(request: Request) -> Response:
    """Return a window of a series: its points, or buckets where there are more than wanted."""
    case, metric = required(request, "case"), required(request, "metric")
    wanted = series.Wanted(
        start=time_of(request, "start"),
        end=time_of(request, "end"),
        environment=text_of(request, "environment"),
        branch=text_of(request, "branch"),
        limit=whole_of(request, "limit", 1000, 1, series.POINTS_LIMIT),
    )
    if wanted.start is not None and wanted.end is not None and wanted.start > wanted.end:
        raise UsageError("the window ends before it begins.", advice="Exchange start and end.")
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        row = series_for(connection, project, case, metric)
        found = series.window(connection, row.id, wanted)
    told = {name: value for name, value in shapes.series(row).items() if name not in {"total", "last_at", "last_value"}}
    return shapes.answer(
        told
        | {
            "total": found.total,
            "start": None if found.start is None else iso(found.start),
            "end": None if found.end is None else iso(found.end),
            "points": [shapes.point(point) for point in found.points],
            "buckets": [shapes.bucket(bucket) for bucket in found.buckets],
        }
    )


def compare(request: Request) -> Response:
    """Put two runs side by side: each metric of each case, and whether the two may be compared at all."""
    names = required(request, "base"), required(request, "head")
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        base, head = (_run(connection, project, name) for name in names)
        before, after = (_measured(connection, row) for row in (base, head))
    keys = sorted(before.keys() | after.keys())
    why = incomparable(base.environment, head.environment)
    return shapes.answer(
        {
            "base": shapes.run(base),
            "head": shapes.run(head),
            "comparable": not why,
            "why": why and f"{why}: timed values say nothing beside each other.",
            "metrics": [_beside(before.get(key), after.get(key)) for key in keys],
        }
    )


def _run(connection: Connection, project: Row[Any], name: str) -> Row[Any]:
    row = runs.by_name(connection, project.id, name)
    if row is None:
        raise NotFoundError(f"project {project.name!r} has no run {name!r}.")
    return row


def _measured(connection: Connection, run: Row[Any]) -> dict[tuple[str, str], Row[Any]]:
    cases = [case.name for case in runs.cases_of(connection, run.id)]
    return {(row.case, row.metric): row for row in points.of_run(connection, run, cases)}


def _beside(base: Row[Any] | None, head: Row[Any] | None) -> dict[str, Any]:
    known = head if head is not None else base
    assert known is not None
    ratio = None if base is None or head is None or base.value == 0 else head.value / base.value
    ratio = None if ratio is None or not math.isfinite(ratio) else ratio
    return {
        "case": known.case,
        "metric": known.metric,
        "unit": known.unit,
        "direction": known.direction,
        "kind": known.kind,
        "base": None if base is None else base.value,
        "head": None if head is None else head.value,
        "ratio": ratio,
        "change": _change(known.direction, base, head),
    }


def _change(direction: str, base: Row[Any] | None, head: Row[Any] | None) -> str:
    """Say which way a metric went; it is no verdict, which needs to know the noise."""
    if base is None:
        return "new"
    if head is None:
        return "gone"
    if base.value == head.value:
        return "same"
    if direction == "none":
        return "different"
    return "better" if (head.value > base.value) == (direction == "higher") else "worse"
