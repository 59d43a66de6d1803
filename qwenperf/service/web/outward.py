"""Forms on whom a project tells: its webhook and its repository on GitHub."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import outward
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import Service, service_of
from qwenperf.service.github.wanted import Link
from qwenperf.service.web.admin import here, kept, show
from qwenperf.service.web.pages import back, field, opened


def _asked(request: Request) -> tuple[Service, Identity, Row[Any]]:
    return service_of(request), *opened(request, Scope.ADMIN)


@kept("webhook", "url", "secret")
def set_webhook(request: Request, sent: FormData) -> Response:
    """Set the webhook of a project; a secret that was made for it is shown, this once."""
    service, identity, project = _asked(request)
    given = sent.get("secret")
    # Spaces around it are a part of it, as for the API; an empty field is none.
    secret = given if isinstance(given, str) and given else None
    _, made = outward.set_webhook(service, identity, project, url=field(sent, "url"), secret=secret)
    return show(request, secret=made) if made else back(here(project, "webhook"))


def remove_webhook(request: Request, _sent: FormData) -> Response:
    """Remove the webhook of a project."""
    service, identity, project = _asked(request)
    outward.remove_webhook(service, identity, project)
    return back(here(project, "webhook"))


@kept("github", "repository", "repository_id")
def link_github(request: Request, sent: FormData) -> Response:
    """Link a project to a repository on GitHub."""
    service, identity, project = _asked(request)
    link = Link(
        repository=field(sent, "repository"),
        repository_id=field(sent, "repository_id"),
        tokens=field(sent, "tokens") == "yes",
    )
    outward.set_link(service, identity, project, link)
    return back(here(project, "github"))


def unlink_github(request: Request, _sent: FormData) -> Response:
    """Tell GitHub of a project no more."""
    service, identity, project = _asked(request)
    outward.remove_link(service, identity, project)
    return back(here(project, "github"))
