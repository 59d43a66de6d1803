"""Gives a CI job a short push token for its identity, once for each identity token."""

from __future__ import annotations

import threading
import time
from typing import Any

from qwenperf.service.auth import storage
from qwenperf.service.auth.access import unauthenticated
from qwenperf.service.auth.audit_log import audit
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.jwks import Jwks
from qwenperf.service.auth.oidc import Job, hold_to, verify
from qwenperf.service.auth.tokens import Minted, Scope
from qwenperf.service.context import Service
from qwenperf.service.db import projects
from qwenperf.service.problems import Problem
from qwenperf.service.times import SECOND_US

_KEYS: dict[tuple[str, str], Jwks] = {}
_LOCK = threading.Lock()
_REMEMBERED_US = 3600 * SECOND_US
"""An identity stays used for so long after it has expired: longer than clocks disagree."""


def exchange(service: Service, project: str, text: str, *, address: str) -> tuple[Minted, int, Job]:
    """Return a push token for ``project``, when it ends, and the job that it is for.

    Raises:
      Problem: 401 for an identity that is not good or was used, 403 for one that the project does not let push.
    """
    settings = service.settings
    keys = _keys(settings.oidc_issuer, settings.oidc_jwks_url)
    audience = settings.oidc_audience or settings.public_url.rstrip("/")
    job = verify(text, keys, issuer=settings.oidc_issuer, audience=audience)
    with service.database.read() as connection:
        row = projects.by_name(connection, project)
        rules = tuple(map(storage.policy_of, storage.policies(connection, row.id))) if row is not None else ()
    hold_to(job, rules)
    if row is None:
        raise Problem(403, "This project takes nothing from this job.")
    at = service.clock()
    expires_at = at + settings.oidc_token_s * SECOND_US
    project_id = int(row.id)

    def work(connection: Any) -> Minted | None:
        remembered = job.expires_at * SECOND_US + _REMEMBERED_US
        if not storage.use_once(connection, f"{settings.oidc_issuer} {job.id}", remembered):
            return None
        made = storage.add_token(
            connection,
            name=job.actor,
            scope=Scope.PUSH,
            project_id=project_id,
            at=at,
            created_by="oidc",
            expires_at=expires_at,
            claims=job.claims,
        )
        who = Identity(name=job.actor, kind="oidc", project_id=project_id, address=address)
        audit(connection, who, "oidc.exchange", made.prefix, detail=job.claims, at=at, project_id=project_id)
        return made

    made = service.database.write(work)
    if made is None:
        raise unauthenticated("This identity token was used before.", "Ask the runner for a new one for each exchange.")
    return made, expires_at, job


def _keys(issuer: str, url: str) -> Jwks:
    """Return the keys of an issuer, shared by all requests of the process."""
    with _LOCK:
        return _KEYS.setdefault((issuer, url), Jwks(issuer, url, clock=time.monotonic))
