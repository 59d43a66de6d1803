"""Alerts, verdicts over all runs, and changes that somebody accepts, with a reason."""

from __future__ import annotations

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import UsageError
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, field_of, object_of, one_of, project_for, text_of, whole_of
from qwenperf.service.api.series import series_for
from qwenperf.service.auth import audit
from qwenperf.service.context import service_of
from qwenperf.service.db import alerts, runs
from qwenperf.service.db.series import environments
from qwenperf.service.problems import NotFoundError
from qwenperf.service.texts import words
from qwenperf.service.times import iso

_FIELDS = ("case", "metric", "run", "reason")
REASON_LIMIT = 2000


def list_alerts(request: Request) -> Response:
    """List alerts, the latest first."""
    state, limit = text_of(request, "state"), whole_of(request, "limit", 200, 1, 1000)
    if state is not None:
        one_of(state, "the state", alerts.STATES)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = alerts.recent(connection, project.id, state=state, limit=limit)
    return shapes.answer({"alerts": [shapes.alert(row) for row in rows]})


def list_accepted(request: Request) -> Response:
    """List accepted changes, the latest first."""
    limit = whole_of(request, "limit", 200, 1, 1000)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = alerts.accepted_changes(connection, project.id, limit=limit)
    return shapes.answer({"accepted": [shapes.acceptance(row) for row in rows]})


async def accept(request: Request) -> Response:
    """Accept a change: what a series does from a run on is what is expected of it."""
    data = await body_of(request)
    return await run_in_threadpool(_accept, request, data)


def _accept(request: Request, data: bytes) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
    document = object_of(data, _FIELDS)
    case, metric, run, reason = (field_of(document, name, str) for name in _FIELDS)
    if not reason.strip() or len(reason) > REASON_LIMIT:
        raise UsageError(f"the reason has {len(reason)} characters.", advice=f"Say in 1 to {REASON_LIMIT} why.")
    at = service.clock()

    def work(connection: Connection) -> None:
        found = series_for(connection, project, case, metric)
        begins = runs.by_name(connection, project.id, run)
        if begins is None:
            raise NotFoundError(f"project {project.name!r} has no run {words(run, 200)!r}.")
        alerts.accept(connection, found, begins, reason=reason.strip(), by=identity.name, at=at)
        detail = {"case": case, "metric": metric, "reason": reason.strip()}
        audit(connection, identity, "change.accept", run, detail, at, project.id)

    service.database.write(work)
    told = {"case": case, "metric": metric, "run": run, "reason": reason.strip()}
    return shapes.answer(told | {"accepted_by": identity.name, "created_at": iso(at)}, 201)


def list_environments(request: Request) -> Response:
    """List the environments that runs came from."""
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = environments(connection, project.id)
    found = [{"environment": row.environment, "runs": row.runs, "last_at": iso(row.last_at)} for row in rows]
    return shapes.answer({"environments": found})
