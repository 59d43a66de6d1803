"""A push token for a GitHub Actions job, in exchange for the identity that its runner signs: no secret is kept.

A job has this where it may write identity tokens (``permissions: id-token: write``); pull requests of forks do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from qwenperf.errors import StoreError
from qwenperf.store.http import Service, Token

if TYPE_CHECKING:
    import httpx

REQUEST_URL, REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"


def is_job(environ: Mapping[str, str]) -> bool:
    """Return whether a runner offers to sign who this job is."""
    return bool(environ.get(REQUEST_URL) and environ.get(REQUEST_TOKEN))


def hold_job_token(service: Service, project: str, environ: Mapping[str, str]) -> None:
    """Ask with a push token of ``project`` from now on, and with another each time that one ends.

    Raises:
      StoreError: the runner does not sign, or the service does not take this job.
    """

    def renew(asked: Service) -> Token:
        return job_token(asked, project, environ)

    service.hold(renew(service))
    service.renew = renew


def job_token(service: Service, project: str, environ: Mapping[str, str]) -> Token:
    """Return a push token of ``project`` that is good for some minutes.

    The identity is asked for the address of ``service`` and is of no use anywhere else.

    Raises:
      StoreError: the runner does not sign, or the service does not take this job.
    """
    audience = service.shown
    parts = urlsplit(environ[REQUEST_URL])
    signer = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    # What these two are asked with is no token that another is made for.
    runner = replace(service, url=signer, token=environ[REQUEST_TOKEN], renew=None)
    stranger = replace(service, token="", renew=None)
    try:
        signed = runner.ask("GET", "", query={**dict(parse_qsl(parts.query)), "audience": audience})
        asked = json.dumps({"project": project, "token": _text(runner, signed, "value")}).encode()
        answer = stranger.ask("POST", "/api/v1/oidc/exchange", content=asked)
        return Token(text=_text(stranger, answer, "token"), lasts_s=_lasts_s(answer))
    finally:
        runner.close()
        stranger.close()


def _text(service: Service, answer: httpx.Response, name: str) -> str:
    try:
        value = answer.json()[name]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{service.shown} answers without {name!r}.") from error
    return str(value)


def _lasts_s(answer: httpx.Response) -> float:
    """Return for how long a token is good, by the clock of who made it: ours may be wrong. ``inf``: it does not say."""
    try:
        ends = datetime.fromisoformat(answer.json()["expires_at"])
        lasts_s = (ends - parsedate_to_datetime(answer.headers["date"])).total_seconds()
    except (ValueError, TypeError, KeyError):
        return math.inf
    return lasts_s if lasts_s > 0 else math.inf
