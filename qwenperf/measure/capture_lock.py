"""One capture at a time on this machine: a profiler that watches another capture shows two programs at once.

The lock is one for all users: who may only read its file can hold it too, and is not named.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.measure.machine_lock import MachineLock

_NAME = "qwenperf-capture"


class CaptureBusyError(EnvironmentUnfitError):
    """Another process captures; says which."""

    default_advice = "Wait for it, or end it: its lock goes with it."


@contextmanager
def one_at_a_time(
    what: str,
    wait_s: float,
    *,
    folder: Path | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold this machine's only capture; others are told ``what`` is going on.

    Raises:
      CaptureBusyError: another process holds it for longer than ``wait_s``; names it.
    """
    try:
        lock = MachineLock.at(folder or Path(tempfile.gettempdir()), _NAME)
    except OSError:  # no place for a lock: a capture is worth more than order
        yield
        return
    with closing(lock):
        _take(lock, wait_s, now, sleep)
        lock.tell(f"process {os.getpid()}, {what}")
        try:
            yield
        finally:
            lock.release()


def _take(lock: MachineLock, wait_s: float, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
    with suppress(OSError):  # a file system without locks
        if not lock.take(wait_s, now=now, sleep=sleep):
            owner = lock.told() or "by an unknown process"
            raise CaptureBusyError(f"another trace is being taken on this machine: {owner}.")
