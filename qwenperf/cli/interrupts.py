"""Ends that come from outside: Ctrl-C, a CI job that is cancelled, a terminal that is closed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from qwenperf.cli.streams import give_up_terminals


@contextmanager
def interrupts() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM (CI's) and SIGHUP end the run in order, also where a shell started us with SIGINT ignored."""

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001  (the signature of a signal handler)
        if number == signal.SIGHUP:
            give_up_terminals()
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
