"""The webhook of a project, which hears of its alerts, and the log of what was sent to it. No answer has its secret."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import UsageError
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, field_of, object_of, project_for, whole_of
from qwenperf.service.auth import audit
from qwenperf.service.context import service_of
from qwenperf.service.db import notices
from qwenperf.service.notify import PING, ping
from qwenperf.service.notify_sending import check_url, shown
from qwenperf.service.problems import NotFoundError
from qwenperf.service.times import iso

SECRET_LEAST, SECRET_MOST = 16, 200
_FIELDS = ("url", "secret")


def show(request: Request) -> Response:
    """Show where a project's messages go."""
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "admin")
        row = notices.webhook(connection, project.id)
    if row is None:
        raise NotFoundError(f"project {project.name!r} has no webhook.", advice="PUT one with its url.")
    return shapes.answer(_told(row))


async def put(request: Request) -> Response:
    """Set the webhook of a project; the first message to it is a ping."""
    data = await body_of(request)
    return await run_in_threadpool(_put, request, data)


def _put(request: Request, data: bytes) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
    document = object_of(data, _FIELDS)
    url = field_of(document, "url", str).strip()
    check_url(url, private_too=service.settings.private_webhooks)
    given = field_of(document, "secret", str, None)
    secret, at = _secret(given), service.clock()

    def work(connection: Connection) -> Row[Any] | None:
        notices.set_webhook(connection, project.id, url=url, secret=secret, by=identity.name, at=at)
        notices.add(connection, project.id, PING, ping(project.name, service.settings.public_url, at), at)
        audit(connection, identity, "webhook.set", shown(url), {"secret": "given" if given else "made"}, at, project.id)
        return notices.webhook(connection, project.id)

    row = service.database.write(work)
    assert row is not None
    return shapes.answer(_told(row) | {"secret": None if given else secret})


def _secret(given: str | None) -> str:
    """Return the secret that somebody chose, or a new one."""
    if given is None:
        return secrets.token_urlsafe(32)
    if not SECRET_LEAST <= len(given) <= SECRET_MOST or not given.isprintable() or not given.isascii():
        raise UsageError(
            f"the secret has {len(given)} characters.",
            advice=f"{SECRET_LEAST} to {SECRET_MOST} printable ones of ASCII; or leave it out, and one is made.",
        )
    return given


def remove(request: Request) -> Response:
    """Remove the webhook of a project; what waits for it is given up."""
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
        row = notices.webhook(connection, project.id)
    at = service.clock()

    def work(connection: Connection) -> None:
        if notices.remove_webhook(connection, project.id, at):
            audit(connection, identity, "webhook.remove", shown(row.url) if row else "", {}, at, project.id)

    service.database.write(work)
    return Response(status_code=204)


def deliveries(request: Request) -> Response:
    """List what was sent to a project's webhook and what waits, the latest first."""
    limit = whole_of(request, "limit", 50, 1, 1000)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "admin")
        rows = notices.recent(connection, project.id, limit)
    return shapes.answer({"deliveries": [_delivery(row) for row in rows]})


def _told(row: Row[Any]) -> dict[str, Any]:
    """Return a webhook without the rest of its address, which may be a secret."""
    return {"address": shown(row.url), "created_at": iso(row.created_at), "created_by": row.created_by}


def _delivery(row: Row[Any]) -> dict[str, Any]:
    waits = row.state == notices.WAITING
    return {
        "delivery": row.name,
        "event": row.event,
        "state": row.state,
        "tries": row.tries,
        "problem": row.problem,
        "next_at": iso(row.next_at) if waits else None,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }
