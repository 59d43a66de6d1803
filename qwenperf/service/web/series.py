"""The list of series, and one of them drawn: points with their intervals, change marks, commits, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import series as stored
from qwenperf.service.problems import Problem
from qwenperf.service.times import DAY_US
from qwenperf.service.web import asked, chart, queries
from qwenperf.service.web.pages import opened, page

_LISTED = 200
_DRAWN = 500
"""Points of a chart; of more than these buckets none could be told from its neighbour."""
_ROWS = 100
_BRANCHES = 50
_ALL = "all"
_SPANS = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "": "everything"}


@dataclass(frozen=True, kw_only=True)
class _Wish:
    """What of a series an address asks for. Without an environment it is the newest point's: others do not compare."""

    environment: str
    branch: str
    days: str

    def wanted(self, now: int, limit: int) -> stored.Wanted:
        start = now - int(self.days) * DAY_US if self.days else None
        environment = None if self.environment in {_ALL, ""} else self.environment
        return stored.Wanted(start=start, environment=environment, branch=self.branch or None, limit=limit)


def show(request: Request) -> Response:
    """Show one series, or the list where the address names none."""
    if not request.query_params.get("case") or not request.query_params.get("metric"):
        return _list(request)
    identity, project = opened(request)
    service = service_of(request)
    with service.database.read() as connection:
        row = _named(request, connection, project.id)
        wish = _wish(request, connection, row)
        window = stored.window(connection, row.id, wish.wanted(service.clock(), _DRAWN))
        latest = _latest(connection, row.id, wish, service.clock(), window)
        shown: dict[str, Any] = {
            **_origins(stored.origins(connection, project.id)),
            "alerts": queries.alerts_of(connection, row.id),
            "siblings": stored.catalogue(connection, project.id, case=row.case),
        }
    data = chart.data(row, window, shown["alerts"], project.name)
    return page(
        request,
        "series.html",
        project=project,
        series=row,
        window=window,
        points=latest,
        mixed=len({one.environment for one in window.points or window.buckets}) > 1,
        asked=wish,
        spans=_SPANS,
        data=data,
        drawing=chart.drawing(row, window, shown["alerts"]),
        may_accept=identity.may(Scope.ADMIN, project.id, public=False),
        here="series",
        **shown,
    )


def _origins(found: Sequence[stored.Origin]) -> dict[str, Any]:
    """Return the environments, with the number of their runs, and the branches of a project for whoever chooses."""
    runs = dict[str, int]()
    for one in found:
        runs[one.environment] = runs.get(one.environment, 0) + one.runs
    branches = list(dict.fromkeys(one.branch for one in found if one.branch))[:_BRANCHES]
    return {
        "environments": [{"environment": name, "runs": count} for name, count in runs.items()],
        "branches": branches,
    }


def data(request: Request) -> Response:
    """Return a part of a series for the chart: what lies between two times, as fine as the chart can show it."""
    _, project = opened(request)
    service = service_of(request)
    start, end = _seconds(request, "start"), _seconds(request, "end")
    with service.database.read() as connection:
        row = _named(request, connection, project.id)
        wanted = _wish(request, connection, row).wanted(service.clock(), _DRAWN)
        wanted = replace(wanted, start=start if start is not None else wanted.start, end=end)
        window = stored.window(connection, row.id, wanted)
        found = queries.alerts_of(connection, row.id)
    return JSONResponse(chart.data(row, window, found, project.name), headers={"Cache-Control": "private, no-cache"})


def _list(request: Request) -> Response:
    _, project = opened(request)
    text, metric = asked.text(request, "q").strip(), asked.text(request, "metric")
    after = asked.whole(request, "after") or 0
    with service_of(request).database.read() as connection:
        rows = queries.search(connection, project.id, text=text, metric=metric, limit=_LISTED + 1, after=after)
        metrics = queries.metrics_of(connection, project.id)
    return page(
        request,
        "series_list.html",
        project=project,
        rows=rows[:_LISTED],
        more=after + _LISTED if len(rows) > _LISTED else None,
        after=after,
        metrics=metrics,
        text=text,
        metric=metric,
        here="series",
    )


def _named(request: Request, connection: Connection, project_id: int) -> Row[Any]:
    case, metric = asked.text(request, "case"), asked.text(request, "metric")
    row = stored.by_name(connection, project_id, case, metric)
    if row is None:
        raise Problem(404, "There is no such series in this project.", "The list of series has all of them.")
    return row


def _latest(connection: Connection, series_id: int, wish: _Wish, now: int, window: stored.Window) -> list[Row[Any]]:
    """Return the newest points for the table, the newest first."""
    if window.points or not window.total:
        return list(window.points)[: -_ROWS - 1 : -1]
    return list(queries.latest_points(connection, series_id, wish.wanted(now, _ROWS)))


def _wish(request: Request, connection: Connection, row: Row[Any]) -> _Wish:
    days = request.query_params.get("days", "")
    if days not in _SPANS:
        raise Problem(422, "'days' is no span that the page knows.", f"Known: {', '.join(filter(None, _SPANS))}.")
    environment = asked.text(request, "environment") or queries.environment_of(connection, row.last_run_id)
    return _Wish(environment=environment, branch=asked.text(request, "branch"), days=days)


def _seconds(request: Request, name: str) -> int | None:
    """Return a time that the chart sends, in seconds, as the database keeps it."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 <= seconds < 1e11:
        raise Problem(422, f"{name!r} is no time in seconds.")
    return round(seconds * 1e6)
