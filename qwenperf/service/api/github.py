"""The link of a project to a repository on GitHub, and what became of telling GitHub. No answer has a credential."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import outward
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import field_of, object_of
from qwenperf.service.api.managed import for_admin, listing, putting, removing, showing
from qwenperf.service.context import Service
from qwenperf.service.db import github
from qwenperf.service.github.access import has_credentials
from qwenperf.service.github.wanted import Link, check_name
from qwenperf.service.times import iso

_FIELDS = ("repository", "repository_id", "tokens")


def _put(request: Request, data: bytes) -> Response:
    """Link a project to a repository."""
    service, identity, project = for_admin(request)
    document = object_of(data, _FIELDS)
    link = Link(
        repository=field_of(document, "repository", str),
        repository_id=field_of(document, "repository_id", str),
        tokens=field_of(document, "tokens", bool, default=False),
    )
    return shapes.answer(_told(service, project, outward.set_link(service, identity, project, link)))


def _told(service: Service, project: Row[Any], row: Row[Any]) -> dict[str, Any]:
    return {
        "repository": row.repository,
        "repository_id": row.repository_id,
        "tokens": row.tokens,
        "check": check_name(project.name),
        "credentials": has_credentials(service.settings),
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


show = showing(github.link_of, _told, lacks="is linked to no repository", advice="PUT one with its id.")
put = putting(_put)
remove = removing(outward.remove_link)
posts = listing("posts", github.recent, _post)
