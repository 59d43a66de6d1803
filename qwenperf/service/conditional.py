"""Answers that whoever asks has already: an ETag of the content, and 304 for who names it."""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

_SAFE = frozenset({"GET", "HEAD"})
_KEPT = ("etag", "cache-control", "vary", "cross-origin-resource-policy")
"""What an answer without its content says of it, for caches on the way."""


def unless_known(request: Request, response: Response) -> Response:
    """Return the answer with an ETag, or 304 where ``If-None-Match`` has it.

    Answers that nobody may keep, and those that are made while they are sent, have none unless they bring it.
    """
    if request.method not in _SAFE or response.status_code not in {200, 206}:
        return response
    if "no-store" in response.headers.get("cache-control", ""):
        return response
    if "etag" not in response.headers:
        content = getattr(response, "body", None)
        if not isinstance(content, bytes):
            return response
        response.headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if not _names(request.headers.getlist("if-none-match"), response.headers["etag"]):
        return response
    kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
    return Response(status_code=304, headers=kept)


def _names(headers: list[str], etag: str) -> bool:
    """Say whether one of the tags is this one; weak ones count, for equal content is all that matters here."""
    known = [one.strip().removeprefix("W/") for header in headers for one in header.split(",")]
    return etag in known or "*" in known
