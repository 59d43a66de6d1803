"""Counts every answer for ``/metrics``: by method, route and status, those to probes and to callers turned away too.

A route is the pattern of an address, and unknown methods are one: whoever asks for anything makes no new number of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qwenperf.service.counters import Counters

_ROUTE = "qwenperf.route"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class CountRequests:
    """Stands before everything else that answers."""

    def __init__(self, app: ASGIApp, *, counters: Counters) -> None:
        self._app, self._counters = app, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counted = False

        async def counting(message: Message) -> None:
            nonlocal counted
            if message["type"] == "http.response.start":
                counted = True
                self._count(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counting)
        except Exception:
            if not counted:
                self._count(scope, 500)  # which is answered further out
            raise

    def _count(self, scope: Scope, status: int) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._counters.add("requests", method=method, route=scope.get(_ROUTE, ""), status=str(status))


def named(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """Return routes that say which they are, to be counted by."""
    found = list(routes)
    for route in found:
        if isinstance(route, Route | Mount):
            route.app = _Named(route.app, route.path)
    return found


class _Named:
    """One route's own application. What no route takes reaches none of these."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app, self._path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_ROUTE] = self._path
        await self._app(scope, receive, send)
