"""Stands before a backup that somebody looks at: what would change it is refused, whoever asks."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from qwenperf.service.auth.sessions import SAFE_METHODS
from qwenperf.service.problems import Problem

_LOOKS = re.compile(r"/log(in|out)|/p/[^/]+/(runs|comparisons)/[^/]+/xprof")
"""Forms by which somebody gets to see more: a session is no part of a backup."""

ADVICE = "To go on from here, restore it: `qwenperf db restore FOLDER --data NEW`."


class OnlyLooking:
    """Answers 403 to what would change a backup. ``refuse`` makes an answer of a problem."""

    def __init__(self, app: ASGIApp, *, refuse: Callable[[Request, Exception], Response]) -> None:
        self._app, self._refuse = app, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or as the application does."""
        looks = scope["type"] != "http" or scope["method"] in SAFE_METHODS or _LOOKS.fullmatch(scope["path"])
        if looks:
            await self._app(scope, receive, send)
            return
        problem = Problem(403, "this is a backup, which is looked at and not changed.", ADVICE)
        response = await run_in_threadpool(self._refuse, Request(scope, receive), problem)
        await response(scope, receive, send)
