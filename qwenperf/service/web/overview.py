"""The list of projects, and of one project what changed, what is slow and what is stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.auth import manage
from qwenperf.service.auth.credentials import identify
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import alerts, comparisons, projects, runs
from qwenperf.service.times import DAY_US
from qwenperf.service.web import queries
from qwenperf.service.web.pages import SHOWN_ONCE, address, opened, page

_SLOW, _CHANGED, _STALE, _RECENT = 10, 20, 10, 8
_STALE_US = 7 * DAY_US
"""A case that lags so far behind the newest run of its project has probably stopped."""

_FIRST_DAYS = 90


@dataclass(kw_only=True)
class CaseNumbers:
    """The newest key numbers of one case, by metric."""

    case: str
    rows: dict[str, Row[Any]] = field(default_factory=dict)

    @property
    def last_at(self) -> int:
        """When the newest of them is from."""
        return max(int(row.last_at) for row in self.rows.values())


@dataclass(frozen=True, kw_only=True)
class Family:
    """Alerts that have one cause, as far as one can tell: the worst first."""

    alerts: Sequence[Row[Any]]

    @property
    def worst(self) -> Row[Any]:
        """The one to look at."""
        return self.alerts[0]


def index(request: Request) -> Response:
    """List the projects that whoever asks may see."""
    identity = identify(request)
    with service_of(request).database.read() as connection:
        rows = [one for one in projects.listed(connection) if identity.may(Scope.READ, one.id, public=one.public)]
        latest, alarms = queries.latest_runs(connection), queries.open_alerts(connection)
    return page(request, "index.html", projects=rows, latest=latest, alarms=alarms, here="projects")


def overview(request: Request) -> Response:
    """Show what changed, what is slow and what is stale in one project."""
    _, project = opened(request)
    with service_of(request).database.read() as connection:
        newest = queries.newest_run_at(connection, project.id)
        recent = comparisons.recent(connection, project.id, limit=_RECENT)
        if newest is None and not recent:
            return page(
                request, "first_run.html", project=project, token=None, address=address(request), here="overview"
            )
        shown = _sections(connection, project.id, newest or 0)
    return page(request, "overview.html", project=project, comparisons=recent, newest=newest, here="overview", **shown)


def _sections(connection: Connection, project_id: int, newest: int) -> dict[str, Any]:
    seen = [
        one
        for state in (alerts.CONFIRMED, alerts.OPEN)
        for one in alerts.recent(connection, project_id, state=state, limit=10 * _CHANGED)
    ]
    cases = slowest(queries.newest_of(connection, project_id, queries.KEY_METRICS), newest - _STALE_US)
    return {
        "families": families(seen)[:_CHANGED],
        "slow": cases[:_SLOW],
        "metrics": queries.KEY_METRICS,
        "longest": [] if cases else queries.longest(connection, project_id, _SLOW),
        "stale": queries.stale_cases(connection, project_id, newest - _STALE_US, _STALE),
        "runs": runs.recent(connection, project_id, limit=_RECENT),
        "old_after": _STALE_US,
    }


def slowest(rows: Iterable[Row[Any]], since: int) -> list[CaseNumbers]:
    """Return the cases that still come, those furthest from their machine's limit first, then by time per token."""
    found: dict[str, CaseNumbers] = {}
    for row in rows:
        found.setdefault(row.case, CaseNumbers(case=row.case)).rows[row.metric] = row

    def far(one: CaseNumbers) -> tuple[float, float, str]:
        share, token_s = one.rows.get("mbu"), one.rows.get("tpot_s")
        return (share.last_value if share else 2.0, -(token_s.last_value if token_s else 0.0), one.case)

    return sorted((one for one in found.values() if one.last_at >= since), key=far)


def families(found: Iterable[Row[Any]]) -> list[Family]:
    """Group alerts by family, the largest change first; what has no family stands alone."""
    groups: dict[str, list[Row[Any]]] = {}
    for one in found:
        groups.setdefault(one.family or f"alert {one.id}", []).append(one)
    grouped = [Family(alerts=sorted(group, key=_size, reverse=True)) for group in groups.values()]
    return sorted(grouped, key=lambda family: _size(family.worst), reverse=True)


def _size(alert: Row[Any]) -> tuple[bool, float]:
    ratio = alert.ratio
    return alert.state == alerts.CONFIRMED, abs(ratio - 1) if ratio is not None else 0.0


def first_token(request: Request, _sent: FormData) -> Response:
    """Make a push token for somebody's first run and show it, this once, in the command that uses it."""
    identity, project = opened(request, Scope.ADMIN)
    made, _ = manage.create_token(
        service_of(request), identity, project, name="first push", scope=Scope.PUSH, days=_FIRST_DAYS
    )
    return page(
        request,
        "first_run.html",
        project=project,
        token=made.text,
        address=address(request),
        here="overview",
        cache=SHOWN_ONCE,
    )
