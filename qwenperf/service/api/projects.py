"""Projects: make one, list them, change what is said of one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import UsageError
from qwenperf.gate.budget import parse as parse_budgets
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, field_of, object_of, part, project_for
from qwenperf.service.auth import audit, identify, require
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.texts import project_name
from qwenperf.service.writing_json import compact

FIELDS = (
    "project", "title", "public", "quota_bytes", "retention_days", "owner", "repository", "budgets", "default_branch",
)  # fmt: skip
_MOST_DAYS = 36_500


async def create(request: Request) -> Response:
    """Make a project."""
    # Who asks was found out already, and is settled before a byte of the body is read.
    identity = identify(request)
    require(identity, None, "admin")
    data = await body_of(request)

    def make() -> Response:
        service = service_of(request)
        document = object_of(data, FIELDS)
        values = {"quota_bytes": service.settings.quota_bytes, "public": False} | _values(document)
        values |= {"name": project_name(document.get("project")), "created_at": service.clock()}

        def work(connection: Connection) -> None:
            number = projects.create(connection, values)
            changed = {"project": values["name"], "public": values["public"]}
            audit(connection, identity, "project.create", values["name"], changed, values["created_at"], number)

        service.database.write(work)
        with service.database.read() as connection:
            row = projects.by_name(connection, values["name"])
            assert row is not None
            return shapes.answer(shapes.project(row), 201, {"Location": f"/api/v1/projects/{row.name}"})

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
    return shapes.answer(shapes.project(row))


async def change(request: Request) -> Response:
    """Change what is said of a project."""
    data = await body_of(request)

    def work() -> Response:
        service, name = service_of(request), part(request, "project")
        with service.database.read() as connection:
            identity, row = project_for(request, connection, "admin")
        values = _values(object_of(data, FIELDS[1:]))
        if "quota_bytes" in values:
            # A project's own admin must not grow beyond what the service gave it.
            require(identity, None, "admin")
        if not values:
            raise UsageError("nothing is changed.", advice=f"Send some of {', '.join(FIELDS[1:])}.")
        at = service.clock()

        def write(connection: Connection) -> None:
            projects.change(connection, row.id, values)
            audit(connection, identity, "project.change", name, {"fields": sorted(values)}, at, row.id)

        service.database.write(write)
        with service.database.read() as connection:
            return shapes.answer(shapes.project(project_for(request, connection, "read")[1]))

    return await run_in_threadpool(work)


def _values(document: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that a body sets.

    Raises:
      UsageError: one of them is none that a project can have.
    """
    values: dict[str, Any] = {}
    for name in ("title", "owner", "repository", "default_branch"):
        if name in document:
            values[name] = _line(field_of(document, name, str), name)
    if not values.get("default_branch", "main"):
        raise UsageError("default_branch is empty.", advice="Name the branch that runs are judged on, such as main.")
    if "public" in document:
        values["public"] = field_of(document, "public", bool)
    if "quota_bytes" in document:
        values["quota_bytes"] = _at_least(field_of(document, "quota_bytes", int), "quota_bytes", 0)
    if "retention_days" in document:
        days = field_of(document, "retention_days", int, None)
        values["retention_days"] = None if days is None else min(_at_least(days, "retention_days", 1), _MOST_DAYS)
    if "budgets" in document:
        budgets = field_of(document, "budgets", dict)
        parse_budgets(budgets, "budgets")
        values["budgets"] = compact(budgets) if budgets else ""
    return values


def _line(value: str, name: str) -> str:
    if len(value) > 200 or not value.isprintable():
        raise UsageError(f"{name} is no line of at most 200 characters.")
    return value


def _at_least(value: int, name: str, least: int) -> int:
    if value < least:
        raise UsageError(f"{name} is {value}; it is at least {least}.")
    return value
