"""Admin of a project and of the service: tokens, CI jobs, quotas, retention, the audit log, new projects."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.auth import audit, audit_log, identify, manage, require, storage
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.oidc import DEFAULT_REFS, Policy
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.problems import Problem
from qwenperf.service.texts import project_name
from qwenperf.service.web import asked, links
from qwenperf.service.web.pages import SHOWN_ONCE, back, field, line, opened, page, whole

_CHANGES = 100
_MOST_RETENTION_DAYS = 36_500
_MB = 1_000_000


def _managed(request: Request) -> tuple[Identity, Row[Any] | None]:
    """Return who asks and the project of the address (``None``: the service), if they may manage it."""
    if "project" in request.path_params:
        return opened(request, Scope.ADMIN)
    identity = identify(request)
    require(identity, None, Scope.ADMIN)
    return identity, None


def _project(request: Request) -> tuple[Identity, Row[Any]]:
    return opened(request, Scope.ADMIN)


def show(request: Request, made: str = "") -> Response:
    """Show what an admin may change; ``made`` is the text of a token that was just made, shown this once."""
    _, project = _managed(request)
    project_id = project.id if project is not None else None
    service, before = service_of(request), asked.whole(request, "before")
    with service.database.read() as connection:
        tokens = storage.listed_tokens(connection, project_id, every=project is None)
        policies = storage.policies(connection, project.id) if project is not None else []
        changes = audit_log.recent(connection, project_id, limit=_CHANGES, before=before)
    return page(
        request,
        "admin.html",
        project=project,
        tokens=[one for one in tokens if one.kind == "token"],
        policies=policies,
        changes=changes,
        older=changes[-1].id if len(changes) == _CHANGES else None,
        made=made,
        token_s=service.settings.oidc_token_s,
        default_refs=" ".join(DEFAULT_REFS),
        here="admin" if project is not None else "service",
        cache=SHOWN_ONCE,
    )


def create_token(request: Request, sent: FormData) -> Response:
    """Make a token and show it, this once."""
    identity, project = _managed(request)
    name, scope = line(sent, "name"), line(sent, "scope")
    days = whole(sent, "days", manage.MOST_DAYS)
    made, _ = manage.create_token(service_of(request), identity, project, name=name, scope=scope, days=days)
    return show(request, made.text)


def revoke_token(request: Request, sent: FormData) -> Response:
    """Revoke a token."""
    identity, project = _managed(request)
    manage.revoke_token(service_of(request), identity, project, line(sent, "prefix"))
    return back(_here(project))


def allow_jobs(request: Request, sent: FormData) -> Response:
    """Let jobs of a repository push."""
    identity, project = _project(request)
    policy = Policy(
        repository_id=line(sent, "repository_id", 20),
        refs=tuple(line(sent, "refs", 500, optional=True).split()) or DEFAULT_REFS,
        events=tuple(line(sent, "events", 500, optional=True).split()),
    )
    manage.create_policy(service_of(request), identity, project, policy, line(sent, "repository", 140))
    return back(_here(project))


def remove_jobs(request: Request, sent: FormData) -> Response:
    """Stop jobs of a repository from pushing."""
    identity, project = _project(request)
    number = whole(sent, "number", 10**15)
    if number is None:
        raise Problem(422, "The form names no policy.")
    manage.remove_policy(service_of(request), identity, project, number)
    return back(_here(project))


def change_settings(request: Request, sent: FormData) -> Response:
    """Change what is said of a project, how long runs are kept, and who may read it."""
    identity, project = _project(request)
    values: dict[str, Any] = {name: line(sent, name, optional=True) for name in ("title", "owner", "repository")}
    values["retention_days"] = whole(sent, "retention_days", _MOST_RETENTION_DAYS)
    values["public"] = field(sent, "public") == "yes"
    quota = whole(sent, "quota_mb", 10**9)
    if quota is not None and quota != project.quota_bytes // _MB:
        # A project's own admin must not grow beyond what the service gave it.
        require(identity, None, Scope.ADMIN)
        values["quota_bytes"] = quota * _MB
    service = service_of(request)
    changed = {name: value for name, value in values.items() if value != getattr(project, name)}
    at = service.clock()

    def work(connection: Connection) -> None:
        projects.change(connection, project.id, changed)
        audit(connection, identity, "project.change", project.name, changed, at, project.id)

    if changed:
        service.database.write(work)
    return back(_here(project))


def create_project(request: Request, sent: FormData) -> Response:
    """Make a project."""
    identity, service = identify(request), service_of(request)
    require(identity, None, Scope.ADMIN)
    name, at = project_name(field(sent, "name")), service.clock()
    values: dict[str, Any] = {one: line(sent, one, optional=True) for one in ("title", "owner", "repository")}
    values |= {
        "name": name,
        "public": field(sent, "public") == "yes",
        "quota_bytes": service.settings.quota_bytes,
        "created_at": at,
    }

    def work(connection: Connection) -> None:
        number = projects.create(connection, values)
        audit(connection, identity, "project.create", name, {"public": values["public"]}, at, number)

    service.database.write(work)
    return back(links.project(name))


def _here(project: Row[Any] | None) -> str:
    return links.project(project.name, "admin") if project is not None else "/admin"
