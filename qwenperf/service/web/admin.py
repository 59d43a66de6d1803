"""Admin of a project and of the service: tokens, CI jobs, quotas, retention, the audit log, new projects.

Forms that stand on the same page have modules of their own: ``budgets`` and ``outward``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sqlalchemy import Connection, Row
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import budgets, changing
from qwenperf.service.auth import audit_log, identify, manage, require, storage
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.oidc import DEFAULT_REFS, Policy
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import github, notices
from qwenperf.service.github.access import has_credentials
from qwenperf.service.github.wanted import check_name
from qwenperf.service.notify_sending import shown
from qwenperf.service.problems import FieldError, Problem
from qwenperf.service.web import asked, links
from qwenperf.service.web.pages import SHOWN_ONCE, Refused, back, field, line, opened, page, whole

_CHANGES = 100
_MB = 1_000_000
_SAID = ("title", "owner", "repository", "default_branch")
Work = Callable[[Request, FormData], Response]


def _managed(request: Request) -> tuple[Identity, Row[Any] | None]:
    """Return who asks and the project of the address (``None``: the service), if they may manage it."""
    if "project" in request.path_params:
        return opened(request, Scope.ADMIN)
    identity = identify(request)
    require(identity, None, Scope.ADMIN)
    return identity, None


def _project(request: Request) -> tuple[Identity, Row[Any]]:
    return opened(request, Scope.ADMIN)


def show(request: Request, *, made: str = "", secret: str = "", refused: Refused | None = None) -> Response:
    """Show what an admin may change.

    ``made`` is the text of a token, ``secret`` that of a webhook, made just now and shown this once; ``refused`` is a
    form that was not taken.
    """
    _, project = _managed(request)
    project_id = project.id if project is not None else None
    service, before = service_of(request), asked.whole(request, "before")
    with service.database.read() as connection:
        tokens = storage.listed_tokens(connection, project_id, every=project is None)
        policies = storage.policies(connection, project.id) if project is not None else []
        changes = audit_log.recent(connection, project_id, limit=_CHANGES, before=before)
        told = _told(connection, project) if project is not None else {}
    return page(
        request,
        "admin.html",
        status=422 if refused else 200,
        project=project,
        tokens=[one for one in tokens if one.kind == "token"],
        policies=policies,
        changes=changes,
        older=changes[-1].id if len(changes) == _CHANGES else None,
        **_budgets(request, project),
        made=made,
        secret=secret,
        refused=refused,
        token_s=service.settings.oidc_token_s,
        default_refs=" ".join(DEFAULT_REFS),
        credentials=has_credentials(service.settings),
        here="admin" if project is not None else "service",
        cache=SHOWN_ONCE,
        **told,
    )


def _told(connection: Connection, project: Row[Any]) -> dict[str, Any]:
    """Return whom a project tells, and what became of the last message to each."""
    webhook, deliveries = notices.webhook(connection, project.id), notices.recent(connection, project.id, 1)
    link, posts = github.link_of(connection, project.id), github.recent(connection, project.id, 1)
    return {
        "webhook": webhook,
        # The rest of the address may be a secret.
        "webhook_address": shown(webhook.url) if webhook is not None else "",
        "delivery": deliveries[0] if deliveries else None,
        "link": link,
        "check": check_name(project.name),
        "post": posts[0] if posts else None,
    }


def _budgets(request: Request, project: Row[Any] | None) -> dict[str, Any]:
    """Return the budgets of a project, and the one that somebody wants to change."""
    found = budgets.listed(project.budgets) if project is not None else []
    number = asked.whole(request, "budget")
    return {"budgets": found, "budget": found[number] if number is not None and number < len(found) else None}


def kept(form: str, *fields: str) -> Callable[[Work], Work]:
    """Return what makes a handler show the page again, with what was typed, where one of ``fields`` is refused."""

    def around(work: Work) -> Work:
        @wraps(work)
        def handled(request: Request, sent: FormData) -> Response:
            try:
                return work(request, sent)
            except FieldError as error:
                if error.field not in fields:
                    raise
                return show(request, refused=Refused.of(form, error, sent))

        return handled

    return around


@kept("token", "name", "days")
def create_token(request: Request, sent: FormData) -> Response:
    """Make a token and show it, this once."""
    identity, project = _managed(request)
    name, scope = line(sent, "name"), line(sent, "scope")
    days = whole(sent, "days", manage.MOST_DAYS)
    made, _ = manage.create_token(service_of(request), identity, project, name=name, scope=scope, days=days)
    return show(request, made=made.text)


def revoke_token(request: Request, sent: FormData) -> Response:
    """Revoke a token."""
    identity, project = _managed(request)
    manage.revoke_token(service_of(request), identity, project, line(sent, "prefix"))
    return back(here(project))


@kept("jobs", "repository", "repository_id", "refs", "events")
def allow_jobs(request: Request, sent: FormData) -> Response:
    """Let jobs of a repository push."""
    identity, project = _project(request)
    policy = Policy(
        repository_id=line(sent, "repository_id", 20),
        refs=tuple(line(sent, "refs", 500, optional=True).split()) or DEFAULT_REFS,
        events=tuple(line(sent, "events", 500, optional=True).split()),
    )
    manage.create_policy(service_of(request), identity, project, policy, line(sent, "repository", 140))
    return back(here(project))


def remove_jobs(request: Request, sent: FormData) -> Response:
    """Stop jobs of a repository from pushing."""
    identity, project = _project(request)
    number = whole(sent, "number", 10**15)
    if number is None:
        raise Problem(422, "The form names no policy.")
    manage.remove_policy(service_of(request), identity, project, number)
    return back(here(project))


@kept("keep", *_SAID, "retention_days", "quota_mb")
def change_settings(request: Request, sent: FormData) -> Response:
    """Change what is said of a project, how long runs are kept, and who may read it."""
    identity, project = _project(request)
    document: dict[str, Any] = {name: field(sent, name) for name in _SAID if name in sent}
    document["public"] = field(sent, "public") == "yes"
    if "retention_days" in sent:
        document["retention_days"] = whole(sent, "retention_days", changing.MOST_DAYS)
    quota = whole(sent, "quota_mb", 10**9)
    # The page rounds it: what was not changed stays as it is, to the byte.
    if quota is not None and quota != project.quota_bytes // _MB:
        document["quota_bytes"] = quota * _MB
    changing.change_project(service_of(request), identity, project, document)
    return back(here(project))


def create_project(request: Request, sent: FormData) -> Response:
    """Make a project."""
    document: dict[str, Any] = {name: field(sent, name) for name in ("title", "owner", "repository")}
    document |= {"project": field(sent, "name"), "public": field(sent, "public") == "yes"}
    row = changing.create_project(service_of(request), identify(request), document)
    return back(links.project(row.name))


def here(project: Row[Any] | None, section: str = "") -> str:
    """Return the address of the page, or of a section of it."""
    path = links.project(project.name, "admin") if project is not None else "/admin"
    return f"{path}#{section}" if section else path
