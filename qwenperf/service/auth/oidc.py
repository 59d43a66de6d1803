"""The identity of a CI job: GitHub's signed statement about repository, ref and run, checked and held to a policy.

The statement comes from the issuer, so nothing that a job says about itself counts. Pure, but for the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import jwt

from qwenperf.service.auth.access import unauthenticated
from qwenperf.service.auth.jwks import Jwks, KeysUnavailableError
from qwenperf.service.problems import Problem

_ALGORITHMS = ["RS256", "ES256"]
_REQUIRED = ["iss", "aud", "exp", "iat", "jti", "sub"]
_LEEWAY_S = 30
_MOST_CHARACTERS = 16_384
_ADVICE = "Give the job 'id-token: write' and send what the runner hands out for the service's audience."
DEFAULT_REFS = ("refs/heads/*", "refs/pull/*")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Which jobs may push to a project: of one repository (by its id, names can be taken over) at some refs.

    ``refs``, ``events`` and ``workflows`` are patterns, in which ``*`` crosses slashes; no events or workflows are any.
    """

    repository_id: str
    refs: tuple[str, ...] = DEFAULT_REFS
    events: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the issuer vouches for."""

    id: str
    expires_at: int
    repository: str
    repository_id: str
    ref: str
    sha: str = ""
    event: str = ""
    run: str = ""
    workflow: str = ""
    claims: Mapping[str, str] = field(default_factory=dict)

    @property
    def actor(self) -> str:
        """Who this is, for the audit log."""
        return f"github {self.repository}@{self.ref} run {self.run}"


_KEPT = (
    "repository", "repository_id", "repository_owner_id", "ref", "sha", "event_name", "run_id", "run_attempt",
    "workflow_ref", "job_workflow_ref", "base_ref", "head_ref", "actor", "runner_environment",
)  # fmt: skip


def verify(text: str, keys: Jwks, *, issuer: str, audience: str) -> Job:
    """Return what a signed statement says, after signature, issuer, audience and times have been checked.

    Raises:
      Problem: 401 with what is wrong, or 503 where the issuer's keys cannot be had.
    """
    if not audience:
        raise Problem(
            404, "The service has no audience for identity tokens.", "Start it with --public-url or --oidc-audience."
        )
    if len(text) > _MOST_CHARACTERS:
        raise unauthenticated(f"The identity token has more than {_MOST_CHARACTERS} characters.", _ADVICE)
    try:
        claims = _decoded(text, keys, issuer, audience)
    except KeysUnavailableError as error:
        raise Problem(503, f"The issuer's keys cannot be had: {error}.", "Try again.", {"Retry-After": "60"}) from error
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise unauthenticated(
            f"The identity token is not accepted: {_told(error, issuer, audience)}.", _ADVICE
        ) from error
    kept = {name: str(claims[name]) for name in _KEPT if isinstance(claims.get(name), str | int)}
    lacking = [name for name in ("repository", "repository_id", "ref") if not kept.get(name)]
    if lacking:
        raise unauthenticated(f"The identity token has no {lacking[0]}: it is of no GitHub job.", _ADVICE)
    return Job(
        id=str(claims["jti"]),
        expires_at=int(claims["exp"]),
        repository=kept["repository"],
        repository_id=kept["repository_id"],
        ref=kept["ref"],
        sha=kept.get("sha", ""),
        event=kept.get("event_name", ""),
        run=kept.get("run_id", ""),
        workflow=kept.get("job_workflow_ref", kept.get("workflow_ref", "")),
        claims=kept,
    )


def _decoded(text: str, keys: Jwks, issuer: str, audience: str) -> Mapping[str, Any]:
    header = jwt.get_unverified_header(text)
    if header.get("alg") not in _ALGORITHMS:
        raise jwt.InvalidAlgorithmError
    key = keys.key(str(header.get("kid", "")))
    if key is None:
        raise jwt.InvalidSignatureError
    claims: Mapping[str, Any] = jwt.decode(
        text,
        key,
        algorithms=_ALGORITHMS,
        issuer=issuer,
        audience=audience,
        leeway=_LEEWAY_S,
        options={"require": _REQUIRED},
    )
    return claims


def _told(error: Exception, issuer: str, audience: str) -> str:
    """Say what is wrong without repeating what a stranger sent."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"it lacks the claim {error.claim}"
    known = {
        jwt.ExpiredSignatureError: "it has expired; ask the runner for a new one right before the exchange",
        jwt.ImmatureSignatureError: "it is not valid yet; compare the clocks",
        jwt.InvalidAudienceError: f"its audience is not {audience}",
        jwt.InvalidIssuerError: f"its issuer is not {issuer}",
        jwt.InvalidSignatureError: "no key of the issuer has signed it",
        jwt.InvalidAlgorithmError: f"its algorithm is none of {', '.join(_ALGORITHMS)}",
    }
    return next((told for kind, told in known.items() if isinstance(error, kind)), "it is no valid JSON web token")


def hold_to(job: Job, policies: tuple[Policy, ...]) -> None:
    """Return if one of the project's policies lets this job push.

    Raises:
      Problem: 403. A project that does not exist has no policies, and is answered alike.
    """
    reasons = [_reason(job, one) for one in policies if one.repository_id == job.repository_id]
    if "" in reasons:
        return
    told = reasons[0] if reasons else f"no policy names repository id {job.repository_id} ({job.repository})"
    raise Problem(
        403, f"This project takes nothing from this job: {told}.", "An admin of the project sets its policies."
    )


def _reason(job: Job, policy: Policy) -> str:
    """Return why ``policy`` does not let the job push, or nothing."""
    if not _any(job.ref, policy.refs):
        return f"{job.ref} is none of the refs {', '.join(policy.refs)}"
    if policy.events and not _any(job.event, policy.events):
        return f"the event {job.event or 'unknown'} is none of {', '.join(policy.events)}"
    if policy.workflows and not _any(job.workflow, policy.workflows):
        return f"the workflow {job.workflow or 'unknown'} is none of {', '.join(policy.workflows)}"
    return ""


def _any(value: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)
