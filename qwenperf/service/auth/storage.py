"""Tokens, sessions and policies in the database: small functions on a connection, no rules of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from qwenperf.service.auth.oidc import Policy
from qwenperf.service.auth.tokens import Minted, Scope, digest, mint
from qwenperf.service.db.tables import oidc_policies, projects, sessions, tokens, used_identities
from qwenperf.service.times import DAY_US

_KEPT_US = 7 * DAY_US
"""Tokens of jobs stay so long after they expired, for who reads the audit log."""

# Asked by every request: making a statement takes longer than running it.
_BY_PREFIX = select(tokens).where(tokens.c.prefix == bindparam("shown"))


def add_token(
    connection: Connection,
    *,
    name: str,
    scope: Scope,
    project_id: int | None,
    at: int,
    created_by: str,
    expires_at: int | None = None,
    claims: Mapping[str, str] | None = None,
) -> Minted:
    """Make a token; with ``claims`` it is a CI job's. Only what is returned knows its text."""
    made = mint()
    values = {
        "project_id": project_id,
        "name": name,
        "kind": "token" if claims is None else "oidc",
        "prefix": made.prefix,
        "hash": made.hash,
        "scopes": str(scope),
        "claims": json.dumps(claims, sort_keys=True) if claims else "",
        "created_at": at,
        "created_by": created_by,
        "expires_at": expires_at,
    }
    connection.execute(insert(tokens).values(values))
    return made


def token_by_prefix(connection: Connection, prefix: str) -> Row[Any] | None:
    """Return the row that a token's prefix names, whether the token is good or not."""
    return connection.execute(_BY_PREFIX, {"shown": prefix}).one_or_none()


def token_by_id(connection: Connection, token_id: int) -> Row[Any] | None:
    """Return a token's row; ``None`` where it is gone."""
    return connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()


def listed_tokens(connection: Connection, project_id: int | None, *, every: bool = False) -> Sequence[Row[Any]]:
    """Return tokens of one project (``None``: of the service; ``every``: all), each with its project, newest first.

    Those of jobs come behind all others.
    """
    asked = (
        select(tokens, projects.c.name.label("project"))
        .join(projects, projects.c.id == tokens.c.project_id, isouter=True)
        # Jobs make a thousand in a week: whoever looks what to revoke must see the others.
        .order_by(case((tokens.c.kind == "oidc", 1), else_=0), tokens.c.id.desc())
        .limit(1000)
    )
    if not every:
        asked = asked.where(tokens.c.project_id.is_(None) if project_id is None else tokens.c.project_id == project_id)
    return connection.execute(asked).all()


def any_token(connection: Connection) -> bool:
    """Return whether there has ever been a token."""
    return bool(connection.execute(select(func.count()).select_from(tokens)).scalar_one())


def revoke(connection: Connection, token_id: int, at: int) -> bool:
    """Revoke a token and end the sessions that it began; return whether it was good until now."""
    connection.execute(delete(sessions).where(sessions.c.token_id == token_id))
    done = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None)).values(revoked_at=at)
    return connection.execute(done).rowcount > 0


def used(connection: Connection, token_id: int, at: int) -> None:
    """Note that a token was used."""
    connection.execute(update(tokens).where(tokens.c.id == token_id).values(last_used_at=at))


def begin_session(connection: Connection, *, secret: str, token_id: int, at: int, expires_at: int) -> None:
    """Keep a session under the hash of its cookie."""
    values = {"hash": digest(secret), "token_id": token_id, "created_at": at, "expires_at": expires_at}
    connection.execute(insert(sessions).values(values))


def session_token(connection: Connection, secret: str, at: int) -> Row[Any] | None:
    """Return the token behind a cookie whose session has not ended, whether the token is still good or not."""
    asked = (
        select(tokens)
        .join(sessions, sessions.c.token_id == tokens.c.id)
        .where(sessions.c.hash == digest(secret), sessions.c.expires_at > at)
    )
    return connection.execute(asked).one_or_none()


def session_lives(connection: Connection, hashed: str, at: int) -> bool:
    """Say whether a session has not ended, by the hash of its cookie."""
    mine = (sessions.c.hash == hashed) & (sessions.c.expires_at > at)
    return connection.execute(select(sessions.c.id).where(mine)).first() is not None


def end_session(connection: Connection, secret: str) -> None:
    """Forget a session."""
    connection.execute(delete(sessions).where(sessions.c.hash == digest(secret)))


def policies(connection: Connection, project_id: int) -> Sequence[Row[Any]]:
    """Return which jobs may push to a project."""
    asked = select(oidc_policies).where(oidc_policies.c.project_id == project_id).order_by(oidc_policies.c.id)
    return connection.execute(asked).all()


def add_policy(
    connection: Connection, project_id: int, policy: Policy, *, repository: str, at: int, created_by: str
) -> int:
    """Let jobs push to a project; return the number of the policy."""
    values = {
        "project_id": project_id,
        "repository_id": policy.repository_id,
        "repository": repository,
        "refs": "\n".join(policy.refs),
        "events": "\n".join(policy.events),
        "workflows": "\n".join(policy.workflows),
        "created_at": at,
        "created_by": created_by,
    }
    return int(connection.execute(insert(oidc_policies).values(values).returning(oidc_policies.c.id)).scalar_one())


def remove_policy(connection: Connection, project_id: int, policy_id: int) -> bool:
    """Remove a policy; return whether there was one. Tokens that jobs already hold run out by themselves."""
    gone = delete(oidc_policies).where(oidc_policies.c.id == policy_id, oidc_policies.c.project_id == project_id)
    return connection.execute(gone).rowcount > 0


def policy_of(row: Row[Any]) -> Policy:
    """Return a row of ``policies`` as the rule that it is."""
    return Policy(
        repository_id=row.repository_id,
        refs=tuple(row.refs.split("\n")),
        events=tuple(filter(None, row.events.split("\n"))),
        workflows=tuple(filter(None, row.workflows.split("\n"))),
    )


def use_once(connection: Connection, what: str, expires_at: int) -> bool:
    """Note that an identity was used; return whether this was the first time."""
    try:
        with connection.begin_nested():
            connection.execute(insert(used_identities).values(hash=digest(what), expires_at=expires_at))
    except IntegrityError:
        return False
    return True


def sweep(connection: Connection, at: int) -> None:
    """Delete sessions and used identities that are over, and the tokens of jobs that ended a week ago."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= at))
    connection.execute(delete(used_identities).where(used_identities.c.expires_at <= at))
    connection.execute(delete(tokens).where(tokens.c.kind == "oidc", tokens.c.expires_at <= at - _KEPT_US))
