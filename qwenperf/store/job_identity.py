"""A push token for a GitHub Actions job, in exchange for the identity that its runner signs: no secret is kept.

A job has this where it may write identity tokens (``permissions: id-token: write``); pull requests of forks do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from qwenperf.errors import StoreError
from qwenperf.store.http import Service

REQUEST_URL, REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"


def is_job(environ: Mapping[str, str]) -> bool:
    """Return whether a runner offers to sign who this job is."""
    return bool(environ.get(REQUEST_URL) and environ.get(REQUEST_TOKEN))


def job_token(service: Service, project: str, environ: Mapping[str, str]) -> str:
    """Return a push token of ``project`` that is good for some minutes.

    The identity is asked for the address of ``service`` and is of no use anywhere else.

    Raises:
      StoreError: the runner does not sign, or the service does not take this job.
    """
    audience = service.shown
    parts = urlsplit(environ[REQUEST_URL])
    runner = replace(
        service, url=urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")), token=environ[REQUEST_TOKEN]
    )
    stranger = replace(service, token="")
    try:
        signed = _text(runner, "GET", "", "value", query={**dict(parse_qsl(parts.query)), "audience": audience})
        asked = json.dumps({"project": project, "token": signed}).encode()
        return _text(stranger, "POST", "/api/v1/oidc/exchange", "token", content=asked)
    finally:
        runner.close()
        stranger.close()


def _text(
    service: Service,
    method: str,
    path: str,
    name: str,
    *,
    query: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> str:
    answer = service.ask(method, path, query=query, content=content)
    try:
        value = answer.json()[name]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{service.shown}{path} answers without {name!r}.") from error
    return str(value)
