"""Stands before the application: a body that does not arrive is waited for no longer than its sender moves."""

from __future__ import annotations

import time

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qwenperf.service.problems import Problem

SILENT_S = 60.0
"""Seconds that a body may take before a byte of it has come, and later between two pieces."""

SLOWEST_BYTES_PER_S = 100
"""Each such number of bytes gives the rest another second: a byte now and then is no upload."""


class Arriving:
    """Answers 408 and closes where a body stops arriving. Only the time spent waiting for the sender counts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does; it finds ``Problem`` where it reads a body that has stopped."""
        await self._app(scope, _Body(receive).receive if scope["type"] == "http" else receive, send)


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive, self._came, self._waited_s, self._whole = receive, 0, 0.0, False

    async def receive(self) -> Message:
        if self._whole:  # what comes now is that the sender has gone, which takes as long as the answer
            return await self._receive()
        left_s = SILENT_S + self._came / SLOWEST_BYTES_PER_S - self._waited_s
        began = time.monotonic()
        try:
            with anyio.fail_after(max(0.0, min(SILENT_S, left_s))):
                message = await self._receive()
        except TimeoutError:
            self._whole = True
            told = "the body has stopped arriving."
            raise Problem(408, told, "Send it again, without pauses.", {"Connection": "close"}) from None
        self._waited_s += time.monotonic() - began
        self._came += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        return message
