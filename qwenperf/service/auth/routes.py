"""The API of access: who am I, tokens, policies for CI jobs, the exchange of a job's identity, the audit log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from qwenperf.service.auth import audit_log, bodies, manage, storage
from qwenperf.service.auth.access import admitted, require
from qwenperf.service.auth.bodies import Answer, Body
from qwenperf.service.auth.credentials import address_of, identify
from qwenperf.service.auth.exchange import exchange
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.oidc import DEFAULT_REFS, Policy
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.problems import Problem

_MOST_AUDITED = 1000


def routes() -> list[BaseRoute]:
    """Return the routes of this room."""
    project = "/api/v1/projects/{project}"
    return [
        Route("/api/v1/whoami", whoami),
        Route("/api/v1/oidc/exchange", bodies.taking(_exchange), methods=["POST"]),
        Route("/api/v1/tokens", list_tokens),
        Route("/api/v1/tokens", bodies.taking(_create_token), methods=["POST"]),
        Route("/api/v1/tokens/{prefix}", revoke_token, methods=["DELETE"]),
        Route(f"{project}/tokens", list_tokens),
        Route(f"{project}/tokens", bodies.taking(_create_token), methods=["POST"]),
        Route(f"{project}/tokens/{{prefix}}", revoke_token, methods=["DELETE"]),
        Route(f"{project}/oidc", list_policies),
        Route(f"{project}/oidc", bodies.taking(_create_policy), methods=["POST"]),
        Route(f"{project}/oidc/{{number:int}}", remove_policy, methods=["DELETE"]),
        Route("/api/v1/audit", list_audit),
        Route(f"{project}/audit", list_audit),
    ]


def _admin(request: Request) -> tuple[Identity, Row[Any] | None]:
    """Return who asks and the project of the address (``None``: the service), if they may manage it."""
    identity, name = identify(request), request.path_params.get("project")
    if name is None:
        require(identity, None, Scope.ADMIN)
        return identity, None
    with service_of(request).database.read() as connection:
        row = projects.by_name(connection, name)
    return identity, admitted(identity, row, name, Scope.ADMIN)


def _project(request: Request) -> tuple[Identity, Row[Any]]:
    identity, row = _admin(request)
    if row is None:
        raise Problem(404, "There is no such project.")
    return identity, row


def whoami(request: Request) -> Response:
    """Say who asks and what they may do."""
    identity, name = identify(request), None
    if identity.project_id is not None:
        with service_of(request).database.read() as connection:
            name = next((one.name for one in projects.listed(connection) if one.id == identity.project_id), None)
    held = sorted(identity.scopes)
    return bodies.answer(200, {"name": identity.name, "kind": identity.kind, "project": name, "scopes": held})


def list_tokens(request: Request) -> Response:
    """List tokens of a project, or all, without what opens doors."""
    _, row = _admin(request)
    with service_of(request).database.read() as connection:
        rows = storage.listed_tokens(connection, row.id if row else None, every=row is None)
    return bodies.answer(200, {"tokens": [manage.token_json(one) for one in rows]})


def _create_token(request: Request, data: Body) -> Answer:
    identity, row = _admin(request)
    bodies.known(data, "name", "scope", "expires_in_days")
    days = data.get("expires_in_days", manage.DEFAULT_DAYS)
    if days is not None and (not isinstance(days, int) or isinstance(days, bool)):
        raise Problem(422, "'expires_in_days' is neither a whole number nor null.", "Send 90, for example.")
    name, scope = bodies.text(data, "name"), bodies.text(data, "scope")
    made, expires_at = manage.create_token(service_of(request), identity, row, name=name, scope=scope, days=days)
    told = {
        "token": made.text,
        "prefix": made.prefix,
        "name": name,
        "scope": scope,
        "expires_at": manage.when(expires_at),
    }
    return 201, told | {"project": row.name if row else None}


def revoke_token(request: Request) -> Response:
    """Revoke a token."""
    identity, row = _admin(request)
    manage.revoke_token(service_of(request), identity, row, request.path_params["prefix"])
    return Response(status_code=204)


def list_policies(request: Request) -> Response:
    """List which jobs may push to a project."""
    _, row = _project(request)
    with service_of(request).database.read() as connection:
        rows = storage.policies(connection, row.id)
    listed = [manage.policy_json(storage.policy_of(one)) | {"id": one.id, "repository": one.repository} for one in rows]
    return bodies.answer(200, {"policies": listed})


def _create_policy(request: Request, data: Body) -> Answer:
    identity, row = _project(request)
    bodies.known(data, "repository", "repository_id", "refs", "events", "workflows")
    repository_id = data.get("repository_id")
    policy = Policy(
        repository_id=str(repository_id) if isinstance(repository_id, int) else bodies.text(data, "repository_id"),
        refs=bodies.patterns(data, "refs", DEFAULT_REFS) or DEFAULT_REFS,
        events=bodies.patterns(data, "events", ()),
        workflows=bodies.patterns(data, "workflows", ()),
    )
    repository = bodies.text(data, "repository")
    number = manage.create_policy(service_of(request), identity, row, policy, repository)
    return 201, manage.policy_json(policy) | {"id": number, "repository": repository}


def remove_policy(request: Request) -> Response:
    """Stop jobs from pushing."""
    identity, row = _project(request)
    manage.remove_policy(service_of(request), identity, row, request.path_params["number"])
    return Response(status_code=204)


def _exchange(request: Request, data: Body) -> Answer:
    bodies.known(data, "project", "token")
    service = service_of(request)
    project, text = bodies.text(data, "project"), bodies.text(data, "token", most=16_384)
    made, expires_at, job = exchange(service, project, text, address=address_of(request, service.settings))
    told = {"token": made.text, "expires_at": manage.when(expires_at), "scope": str(Scope.PUSH), "project": project}
    return 201, told | {"actor": job.actor}


def list_audit(request: Request) -> Response:
    """List changes, newest first; ``before`` goes on where a page ended."""
    _, row = _admin(request)
    limit, before = _whole(request, "limit", 200), _whole(request, "before", 0)
    with service_of(request).database.read() as connection:
        rows = audit_log.recent(
            connection, row.id if row else None, limit=min(max(limit, 1), _MOST_AUDITED), before=before or None
        )
    return bodies.answer(200, {"audit": [audit_log.told(one) for one in rows]})


def _whole(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name, str(default))
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise Problem(422, f"{name!r} is no whole number.", f"Send {name}={default}.")
    return int(given)
