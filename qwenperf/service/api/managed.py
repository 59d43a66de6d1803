"""What the handlers share of what a project has one of or none: its webhook, its link to GitHub. For its admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, project_for, whole_of
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service, service_of
from qwenperf.service.problems import NotFoundError

Shown = dict[str, Any]


def for_admin(request: Request) -> tuple[Service, Identity, Row[Any]]:
    """Return the service, who asks, and the project of the path, if they manage it.

    Raises:
      Problem: 401, 403 or 404.
    """
    service = service_of(request)
    with service.database.read() as connection:
        return service, *project_for(request, connection, "admin")


def showing(
    find: Callable[[Connection, int], Row[Any] | None],
    shape: Callable[[Service, Row[Any], Row[Any]], Shown],
    *,
    lacks: str,
    advice: str,
) -> Callable[[Request], Response]:
    """Return a handler that shows what ``find`` finds of a project; where that is nothing, the project ``lacks`` it."""

    def handler(request: Request) -> Response:
        service, _, project = for_admin(request)
        with service.database.read() as connection:
            row = find(connection, project.id)
        if row is None:
            raise NotFoundError(f"project {project.name!r} {lacks}.", advice=advice)
        return shapes.answer(shape(service, project, row))

    return handler


def putting(work: Callable[[Request, bytes], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that reads the body, and leaves the rest to ``work`` in a thread."""

    async def handler(request: Request) -> Response:
        return await run_in_threadpool(work, request, await body_of(request))

    return handler


def removing(remove: Callable[[Service, Identity, Row[Any]], None]) -> Callable[[Request], Response]:
    """Return a handler that removes what a project has; once more is answered alike."""

    def handler(request: Request) -> Response:
        remove(*for_admin(request))
        return Response(status_code=204)

    return handler


def listing(
    name: str, recent: Callable[[Connection, int, int], Sequence[Row[Any]]], shape: Callable[[Row[Any]], Shown]
) -> Callable[[Request], Response]:
    """Return a handler that lists what was sent of a project and what waits, the latest first."""

    def handler(request: Request) -> Response:
        limit = whole_of(request, "limit", 50, 1, 1000)
        service, _, project = for_admin(request)
        with service.database.read() as connection:
            rows = recent(connection, project.id, limit)
        return shapes.answer({name: [shape(row) for row in rows]})

    return handler
