"""Finds out who asks: by token, by session, or nobody. Bad credentials are refused, never taken for none."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Row
from starlette.requests import HTTPConnection, Request

from qwenperf.service.auth import storage
from qwenperf.service.auth.access import unauthenticated
from qwenperf.service.auth.identity import ANONYMOUS, Identity
from qwenperf.service.auth.limits import Limiter, Rate
from qwenperf.service.auth.sessions import CSRF_HEADER, SAFE_METHODS, csrf_holds, same_origin, session_secret
from qwenperf.service.auth.tokens import Scope, matches, split
from qwenperf.service.context import Service, service_of
from qwenperf.service.problems import Problem, ServiceUnavailableError
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.times import SECOND_US

_NOTED_EVERY_US = 60 * SECOND_US
"""How exact "last used" is: a write for every request would cost more than it tells."""

_FAILURES = Rate(per_s=0.2, burst=20)
_NOBODY = "0" * 64


def identify(request: Request) -> Identity:
    """Return who asks; the answer is kept for the request.

    Raises:
      Problem: 401 for a token that is not good, 403 for a browser's request that no page of ours made, 429 for too many
        bad tokens.
    """
    if is_identified(request):
        known: Identity = request.state.identity
        return known
    service = service_of(request)
    found = _identify(request, service)
    limiter = getattr(request.state, "limiter", None)
    if found.known and isinstance(limiter, Limiter):
        limiter.know(caller_of(request, service.settings))
    request.state.identity = found
    return found


def is_identified(request: Request) -> bool:
    """Say whether ``identify`` has answered for this request."""
    return isinstance(getattr(request.state, "identity", None), Identity)


def _identify(request: Request, service: Service) -> Identity:
    address = address_of(request, service.settings)
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise unauthenticated("The authorization is of another scheme than Bearer.")
        return _of_row(checked_token(request, service, text.strip()), address)
    secret = session_secret(request, service.settings)
    if secret:
        at = service.clock()
        with service.database.read() as connection:
            row = storage.session_token(connection, secret, at)
        if row is not None and _refusal(row, at) is None:
            _refuse_foreign_forms(request, service.settings, secret)
            return _of_row(row, address, session=True)
    return Identity(name=ANONYMOUS.name, address=address)


def checked_token(request: Request, service: Service, text: str) -> Row[Any]:
    """Return the row of a token that is good, and note that it was used.

    Raises:
      Problem: 401 where it is none of ours, expired or revoked; 429 where an address has shown too many of those.
    """
    at, parts = service.clock(), split(text)
    row = None
    if parts is not None:
        with service.database.read() as connection:
            row = storage.token_by_prefix(connection, parts[0])
    # The hash is compared in any case: an unknown prefix takes as long as a wrong secret.
    good = matches(parts[1] if parts else "", row.hash if row is not None else _NOBODY)
    if row is None or not good:
        _count_failure(request, service)
        raise unauthenticated(
            "This token is not known here.", "Compare it with the one that was shown when it was made."
        )
    refusal = _refusal(row, at)
    if refusal is not None:
        raise unauthenticated(f"The token {row.prefix} {refusal}.", "Ask an admin of the project for a new one.")
    is_due = row.last_used_at is None or at - row.last_used_at > _NOTED_EVERY_US
    if is_due and not service.is_backup:
        with suppress(ServiceUnavailableError):
            service.database.write(lambda connection: storage.used(connection, row.id, at))
    return row


def still_good(connection: Connection, identity: Identity, at: int) -> bool:
    """Say whether the token behind somebody who was identified earlier is good yet; nobody's always is."""
    if identity.token_id is None:
        return True
    row = storage.token_by_id(connection, identity.token_id)
    return row is not None and _refusal(row, at) is None


def _refusal(row: Row[Any], at: int) -> str | None:
    if row.revoked_at is not None:
        return "was revoked"
    if row.expires_at is not None and row.expires_at <= at:
        return "has expired"
    return None


def _of_row(row: Row[Any], address: str, *, session: bool = False) -> Identity:
    kind = "session" if session else row.kind
    label = row.name if row.kind == "oidc" else f"{row.name} ({row.prefix})"
    return Identity(
        name=label,
        kind=kind,
        project_id=row.project_id,
        scopes=Scope(row.scopes).held,
        token_id=row.id,
        address=address,
        job=json.loads(row.claims) if row.claims else {},
    )


def _refuse_foreign_forms(request: Request, settings: ServiceSettings, secret: str) -> None:
    if request.method in SAFE_METHODS or getattr(request.state, "csrf_checked", False):
        return
    if csrf_holds(secret, request.headers.get(CSRF_HEADER, "")) and same_origin(request, settings):
        return
    raise Problem(
        403,
        "A signed-in browser's request changes nothing without its form's secret.",
        "Send it from the page, or use a token instead of the session.",
    )


def _count_failure(request: Request, service: Service) -> None:
    limiter = getattr(request.state, "limiter", None)
    if not isinstance(limiter, Limiter):
        return
    wait_s = limiter.take(f"failed {address_of(request, service.settings)}", _FAILURES)
    if wait_s:
        raise Problem(429, "Too many unknown tokens from this address.", "Wait.", {"Retry-After": str(wait_s)})


def caller_of(connection: HTTPConnection, settings: ServiceSettings) -> str:
    """Return a name for whoever holds the credential of a request, good or not; nothing where there is none."""
    held = connection.headers.get("authorization") or session_secret(connection, settings)
    return hashlib.sha256(held.encode()).hexdigest() if held else ""


def address_of(connection: HTTPConnection, settings: ServiceSettings) -> str:
    """Return where a request comes from; behind a proxy, what the proxy itself has added last."""
    forwarded = connection.headers.get("x-forwarded-for", "") if settings.trust_forwarded else ""
    last = forwarded.rpartition(",")[2].strip()
    return last[:64] or (connection.client.host if connection.client else "")
