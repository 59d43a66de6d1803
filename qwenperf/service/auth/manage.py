"""Makes and revokes tokens and sets which CI jobs may push: the rules that the API and the pages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from qwenperf.service.auth import storage
from qwenperf.service.auth.audit_log import audit
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.oidc import Policy
from qwenperf.service.auth.tokens import Minted, Scope
from qwenperf.service.context import Service
from qwenperf.service.problems import FieldError, Problem
from qwenperf.service.times import DAY_US, iso

DEFAULT_DAYS, MOST_DAYS = 365, 3650
_MOST_POLICIES = 100


def create_token(
    service: Service, identity: Identity, project: Row[Any] | None, *, name: str, scope: str, days: int | None
) -> tuple[Minted, int | None]:
    """Make a token for a project, or for the service; return it and when it ends (``days`` ``None``: never).

    Raises:
      Problem: 422 for a scope or a time that there is not.
    """
    if scope not in list(Scope):
        raise Problem(422, f"Unknown scope {scope[:40]!r}.", f"Known: {', '.join(Scope)}.")
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise Problem(422, f"A token lives 1 to {MOST_DAYS} days, not {days}.", "Without an end it needs null.")
    at = service.clock()
    expires_at = None if days is None else at + days * DAY_US
    project_id = project.id if project is not None else None

    def work(connection: Any) -> Minted:
        made = storage.add_token(
            connection,
            name=name,
            scope=Scope(scope),
            project_id=project_id,
            at=at,
            created_by=identity.name,
            expires_at=expires_at,
        )
        detail = {"name": name, "scope": scope, "days": days}
        audit(connection, identity, "token.create", made.prefix, detail=detail, at=at, project_id=project_id)
        return made

    return service.database.write(work), expires_at


def revoke_token(service: Service, identity: Identity, project: Row[Any] | None, prefix: str) -> None:
    """Revoke a token of a project, or any where ``project`` is ``None``, and end its sessions.

    Raises:
      Problem: 404 where the project has no such token; revoking twice is fine.
    """
    at = service.clock()

    def work(connection: Any) -> bool:
        row = storage.token_by_prefix(connection, prefix)
        if row is None or (project is not None and row.project_id != project.id):
            return False
        if storage.revoke(connection, row.id, at):
            detail = {"name": row.name}
            audit(connection, identity, "token.revoke", prefix, detail=detail, at=at, project_id=row.project_id)
        return True

    if not service.database.write(work):
        raise Problem(404, "There is no such token here.", "List them; the prefix names one.")


def create_policy(service: Service, identity: Identity, project: Row[Any], policy: Policy, repository: str) -> int:
    """Let jobs of a repository push to a project; return the policy's number.

    Raises:
      FieldError: its id is no number.
      Problem: 409 where the project has too many.
    """
    if not (policy.repository_id.isascii() and policy.repository_id.isdigit() and len(policy.repository_id) <= 20):
        advice = "Ask GitHub: gh api repos/OWNER/NAME --jq .id"
        raise FieldError(
            "repository_id", "A repository's id is a number; its name can be taken over by others.", advice=advice
        )
    at = service.clock()

    def work(connection: Any) -> int | None:
        if len(storage.policies(connection, project.id)) >= _MOST_POLICIES:
            return None
        number = storage.add_policy(
            connection, project.id, policy, repository=repository, at=at, created_by=identity.name
        )
        detail = policy_json(policy) | {"repository": repository}
        audit(connection, identity, "oidc.allow", str(number), detail=detail, at=at, project_id=project.id)
        return number

    number = service.database.write(work)
    if number is None:
        raise Problem(409, f"The project has {_MOST_POLICIES} policies.", "Remove one first.")
    return number


def remove_policy(service: Service, identity: Identity, project: Row[Any], number: int) -> None:
    """Stop jobs from pushing.

    Raises:
      Problem: 404 where the project has no such policy.
    """
    at = service.clock()

    def work(connection: Any) -> bool:
        gone = storage.remove_policy(connection, project.id, number)
        if gone:
            audit(connection, identity, "oidc.remove", str(number), detail={}, at=at, project_id=project.id)
        return gone

    if not service.database.write(work):
        raise Problem(404, "There is no such policy here.", "List them; a number names one.")


def policy_json(policy: Policy) -> dict[str, Any]:
    """Return a policy as the API shows it."""
    return {
        "repository_id": policy.repository_id,
        "refs": list(policy.refs),
        "events": list(policy.events),
        "workflows": list(policy.workflows),
    }


def token_json(row: Row[Any]) -> Mapping[str, Any]:
    """Return a token as the API shows it: everything but what opens doors."""
    times = {name: when(getattr(row, name)) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
    return {
        "prefix": row.prefix,
        "name": row.name,
        "kind": row.kind,
        "scope": row.scopes,
        "project": row.project,
        "created_by": row.created_by,
        **times,
    }


def when(at: int | None) -> str | None:
    """Return a time as the API shows it."""
    return None if at is None else iso(at)
