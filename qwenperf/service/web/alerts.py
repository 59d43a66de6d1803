"""Alerts, grouped by what probably is one cause, and the answers to them: accept with a reason, or dismiss."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select, update
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.auth import audit
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import alerts, runs, series
from qwenperf.service.db.tables import alerts as table
from qwenperf.service.problems import Problem
from qwenperf.service.web import asked, links
from qwenperf.service.web.overview import families
from qwenperf.service.web.pages import back, field, line, opened, page

_STATES = (("", "To answer"), *((one, one.capitalize()) for one in alerts.STATES))
_REASON = 500


def show(request: Request) -> Response:
    """Show alerts in one state, or all that wait for an answer."""
    identity, project = opened(request)
    state = asked.text(request, "state")
    if state not in dict(_STATES):
        raise Problem(422, "'state' is no state of alerts.", f"Known: {', '.join(alerts.STATES)}.")
    wanted = (state,) if state else (alerts.CONFIRMED, alerts.OPEN)
    with service_of(request).database.read() as connection:
        rows = [row for one in wanted for row in alerts.recent(connection, project.id, state=one, limit=500)]
        accepted = alerts.accepted_changes(connection, project.id, limit=50) if state in {"", alerts.ACCEPTED} else []
    return page(
        request,
        "alerts.html",
        project=project,
        families=families(rows),
        accepted=accepted,
        states=_STATES,
        state=state,
        may_answer=identity.may(Scope.ADMIN, project.id, public=False),
        here="alerts",
    )


def accept(request: Request, sent: FormData) -> Response:
    """Accept a change: from its run on, the series is expected to be so."""
    identity, project = opened(request, Scope.ADMIN)
    service = service_of(request)
    case, metric, run = (line(sent, name, _REASON, exact=True) for name in ("case", "metric", "run"))
    reason, at = line(sent, "reason", _REASON), service.clock()

    def work(connection: Connection) -> None:
        found = series.by_name(connection, project.id, case, metric)
        begins = runs.by_name(connection, project.id, run)
        if found is None or begins is None:
            raise Problem(404, "There is no such series or run in this project.")
        alerts.accept(connection, found, begins, reason=reason, by=identity.name, at=at)
        detail = {"case": case, "metric": metric, "reason": reason}
        audit(connection, identity, "change.accept", run, detail, at, project.id)

    service.database.write(work)
    return back(links.series(project.name, case, metric))


def dismiss(request: Request, sent: FormData) -> Response:
    """Dismiss an alert: it was nothing."""
    identity, project = opened(request, Scope.ADMIN)
    service, text = service_of(request), field(sent, "alert")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise Problem(422, "The form names no alert.")
    at = service.clock()

    def work(connection: Connection) -> None:
        mine = (table.c.id == int(text)) & (table.c.project_id == project.id)
        row: Row[Any] | None = connection.execute(select(table).where(mine)).first()
        if row is None:
            raise Problem(404, "There is no such alert in this project.")
        if row.state in {alerts.OPEN, alerts.CONFIRMED}:
            connection.execute(update(table).where(mine).values(state=alerts.DISMISSED, updated_at=at))
            audit(connection, identity, "alert.dismiss", text, {"summary": row.summary}, at, project.id)

    service.database.write(work)
    return back(links.project(project.name, "alerts"))
