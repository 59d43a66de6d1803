"""Lets a request through or turns it away, and tells a stranger nothing about what is private."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.problems import Problem

SCHEME = {"WWW-Authenticate": 'Bearer realm="qwenperf"'}


def unauthenticated(
    error: str, advice: str = "Send 'Authorization: Bearer qpf_...' with a token that is good."
) -> Problem:
    """Return the answer to somebody who did not prove who they are."""
    return Problem(401, error, advice, SCHEME)


def admitted(identity: Identity, project: Row[Any] | None, name: str, scope: str) -> Row[Any]:
    """Return ``project`` if ``identity`` may do what needs ``scope`` in it.

    Raises:
      Problem: 401 for a stranger, 404 for a project that they may not know of, 403 for a scope that is too small.
        A private project and none are answered alike, so that names cannot be guessed.
    """
    if project is not None and identity.may(scope, project.id, public=project.public):
        return project
    if not identity.known:
        raise unauthenticated(f"This needs a token with scope {scope} in project {name!r}.")
    if project is None or not identity.may(Scope.READ, project.id, public=project.public):
        raise Problem(
            404, f"There is no project {name!r} here that this token may see.", "Compare its name and the token."
        )
    raise _too_small(identity, scope, name)


def require(identity: Identity, project: Row[Any] | None, scope: str) -> None:
    """Return if ``identity`` may do what needs ``scope`` in ``project``; ``None`` is the service as a whole.

    Raises:
      Problem: 401, 403 or 404, as ``admitted`` says.
    """
    if project is not None:
        admitted(identity, project, project.name, scope)
    elif identity.project_id is not None or scope not in identity.scopes:
        if not identity.known:
            raise unauthenticated(f"This needs a token with scope {scope} of the whole service.")
        raise _too_small(identity, scope, None)


def _too_small(identity: Identity, scope: str, name: str | None) -> Problem:
    held = max(identity.scopes, key=lambda one: list(Scope).index(Scope(one)))
    where = "the whole service" if identity.project_id is None else "one project"
    wanted = f"in project {name!r}" if name else "of the whole service"
    return Problem(
        403, f"This needs scope {scope} {wanted}; the token has {held} of {where}.", "Ask an admin for a token."
    )
