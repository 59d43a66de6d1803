"""The link of a project to a repository on GitHub, and what became of telling GitHub. No answer has a credential."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.errors import UsageError
from qwenperf.forge.target import Target
from qwenperf.schema.hints import show as shown
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, field_of, object_of, project_for, whole_of
from qwenperf.service.auth import audit, require
from qwenperf.service.context import service_of
from qwenperf.service.db import github
from qwenperf.service.github.access import has_credentials
from qwenperf.service.github.wanted import Link, check_name
from qwenperf.service.problems import NotFoundError
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.times import iso

_FIELDS = ("repository", "repository_id", "tokens")
_ANY_COMMIT = "0" * 40


def show(request: Request) -> Response:
    """Show which repository a project is linked to."""
    service = service_of(request)
    with service.database.read() as connection:
        _, project = project_for(request, connection, "admin")
        row = github.link_of(connection, project.id)
    if row is None:
        raise NotFoundError(f"project {project.name!r} is linked to no repository.", advice="PUT one with its id.")
    return shapes.answer(_told(row, project.name, service.settings))


async def put(request: Request) -> Response:
    """Link a project to a repository."""
    data = await body_of(request)
    return await run_in_threadpool(_put, request, data)


def _put(request: Request, data: bytes) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
    # The service speaks there under a name of its own: a project's admin must not choose whose pull requests it is on.
    require(identity, None, "admin")
    link, at = _link(object_of(data, _FIELDS)), service.clock()

    def work(connection: Connection) -> Row[Any] | None:
        github.set_link(connection, project.id, link, by=identity.name, at=at)
        detail = {"repository_id": link.repository_id, "tokens": link.tokens}
        audit(connection, identity, "github.link", link.repository, detail, at, project.id)
        return github.link_of(connection, project.id)

    row = service.database.write(work)
    assert row is not None
    return shapes.answer(_told(row, project.name, service.settings))


def _link(document: dict[str, Any]) -> Link:
    """Return the link that a body describes.

    Raises:
      UsageError: its repository or the id of that is none.
    """
    repository, number = field_of(document, "repository", str), field_of(document, "repository_id", str)
    Target(repository=repository, sha=_ANY_COMMIT)
    if not (number.isascii() and number.isdigit() and len(number) <= 18 and number[0] != "0"):
        raise UsageError(
            f"repository_id is {shown(number)}; a name can be taken over by others, and an id cannot.",
            advice="Ask GitHub: gh api repos/OWNER/NAME --jq .id",
        )
    return Link(repository=repository, repository_id=number, tokens=field_of(document, "tokens", bool, default=False))


def remove(request: Request) -> Response:
    """Remove the link of a project; what waits is given up."""
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
        row = github.link_of(connection, project.id)
    at = service.clock()

    def work(connection: Connection) -> None:
        if github.remove_link(connection, project.id, at):
            audit(connection, identity, "github.unlink", row.repository if row else "", {}, at, project.id)

    service.database.write(work)
    return Response(status_code=204)


def posts(request: Request) -> Response:
    """List what GitHub was told of a project's records and what waits, the latest first."""
    limit = whole_of(request, "limit", 50, 1, 1000)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "admin")
        rows = github.recent(connection, project.id, limit)
    return shapes.answer({"posts": [_post(row) for row in rows]})


def _told(row: Row[Any], project: str, settings: ServiceSettings) -> dict[str, Any]:
    return {
        "repository": row.repository,
        "repository_id": row.repository_id,
        "tokens": row.tokens,
        "check": check_name(project),
        "credentials": has_credentials(settings),
        "created_at": iso(row.created_at),
        "created_by": row.created_by,
    }


def _post(row: Row[Any]) -> dict[str, Any]:
    return {
        "run": row.run,
        "comparison": row.comparison,
        "commit": row.sha or row.merge,
        "pull_request": row.pull,
        "state": row.state,
        "tries": row.tries,
        "problem": row.problem,
        "check": row.check_url,
        "comment": row.comment_url,
        "next_at": iso(row.next_at) if row.state == github.WAITING else None,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }
