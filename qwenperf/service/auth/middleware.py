"""What stands before every handler: security headers, then how many requests a caller may make."""

from __future__ import annotations

import re
import time

from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from qwenperf.service.auth.credentials import address_of, caller_of
from qwenperf.service.auth.headers import SecurityHeaders
from qwenperf.service.auth.limits import Limiter, Rate
from qwenperf.service.auth.sessions import secure
from qwenperf.service.context import Service
from qwenperf.service.settings import ServiceSettings

_UNCOUNTED = re.compile(r"/static/.*|/healthz", re.DOTALL)
"""What says that the process lives must not be turned away, and a page's own files belong to the page."""

_PROBE = "/readyz"


class RateLimits:
    """Turns callers away with 429 when they ask too often. A caller is a token, a session, or an address without one.

    The whole credential names its bucket, so that nobody empties another's by knowing the public part of a token. One
    that was not found good yet counts with all such of its address: who invents some gains nothing.
    """

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings, limiter: Limiter) -> None:
        self._app, self._settings, self._limiter = app, settings, limiter
        self._known = Rate(per_s=settings.rate_per_s, burst=settings.rate_burst)
        self._stranger = Rate(per_s=settings.anonymous_per_s, burst=settings.anonymous_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429, or as the application does."""
        if scope["type"] == "http":
            scope.setdefault("state", {})["limiter"] = self._limiter
            wait_s = 0 if _UNCOUNTED.fullmatch(scope["path"]) else self._wait_s(HTTPConnection(scope))
            if wait_s:
                await _turned_away(scope["path"], wait_s)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _wait_s(self, connection: HTTPConnection) -> int:
        caller = caller_of(connection, self._settings)
        if caller and self._limiter.knows(caller):
            return self._limiter.take(caller, self._known)
        kind = "unproven" if caller else "address"
        if connection.scope["path"] == _PROBE:
            kind = "probe"  # counted apart: who reads pages at that address must not make the service look away
        return self._limiter.take(f"{kind} {address_of(connection, self._settings)}", self._stranger)


def _turned_away(path: str, wait_s: int) -> Response:
    error, advice = "Too many requests.", f"Ask again in {wait_s} s."
    headers = {"Retry-After": str(wait_s)}
    if path.startswith("/api/"):
        return JSONResponse({"error": error, "advice": advice}, 429, headers)
    return PlainTextResponse(f"{error} {advice}\n", 429, headers)


def middleware(service: Service) -> list[Middleware]:
    """Return what stands before the application of ``service``, outermost first."""
    return [
        Middleware(SecurityHeaders, encrypted=secure(service.settings)),
        Middleware(RateLimits, settings=service.settings, limiter=Limiter(time.monotonic)),
    ]
