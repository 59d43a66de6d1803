"""Projects: make one, list them, change what is said of one."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, object_of, project_for
from qwenperf.service.auth import identify, require
from qwenperf.service.changing import FIELDS, change_project, create_project
from qwenperf.service.context import service_of
from qwenperf.service.db import projects


async def create(request: Request) -> Response:
    """Make a project."""
    # Who asks was found out already, and is settled before a byte of the body is read.
    identity = identify(request)
    require(identity, None, "admin")
    data = await body_of(request)

    def make() -> Response:
        row = create_project(service_of(request), identity, object_of(data, FIELDS))
        return shapes.answer(shapes.project_in_full(row), 201, {"Location": f"/api/v1/projects/{row.name}"})

    return await run_in_threadpool(make)


def listed(request: Request) -> Response:
    """List the projects that whoever asks may see."""
    identity = identify(request)
    with service_of(request).database.read() as connection:
        rows = [row for row in projects.listed(connection) if identity.may("read", row.id, public=row.public)]
    return shapes.answer({"projects": [shapes.project(row) for row in rows]})


def show(request: Request) -> Response:
    """Show a project."""
    with service_of(request).database.read() as connection:
        _, row = project_for(request, connection, "read")
    return shapes.answer(shapes.project_in_full(row))


async def change(request: Request) -> Response:
    """Change what is said of a project."""
    data = await body_of(request)

    def work() -> Response:
        service = service_of(request)
        with service.database.read() as connection:
            identity, row = project_for(request, connection, "admin")
        change_project(service, identity, row, object_of(data, FIELDS[1:]))
        with service.database.read() as connection:
            return shapes.answer(shapes.project_in_full(project_for(request, connection, "read")[1]))

    return await run_in_threadpool(work)
