"""Tells how many programs have been compiled, now and then, so that a long first request is seen to move."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax

EVERY_S = 15.0
_COMPILED = "/jax/core/compile/backend_compile_duration"


def count_compiles(tell: Callable[[int], None], every_s: float = EVERY_S) -> None:
    """Call ``tell`` with the count when a program has been compiled, at most once in ``every_s``.

    It runs within a compile or not at all: steady steps, which compile nothing, are not disturbed.
    """
    count, told = 0, time.monotonic()

    def hear(event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG001  (the listener's signature)
        nonlocal count, told
        if event != _COMPILED:
            return
        count += 1
        if time.monotonic() - told >= every_s:
            told = time.monotonic()
            tell(count)

    jax.monitoring.register_event_duration_secs_listener(hear)
