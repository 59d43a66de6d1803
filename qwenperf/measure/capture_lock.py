"""One capture at a time on this machine: a profiler that watches another capture shows two programs at once.

The lock is the kernel's, so that it goes with the process that holds it, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError

_NAME = "qwenperf-capture"
_POLL_S = 0.05
_MOST_BYTES = 400


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
    descriptor = _open(folder or Path(tempfile.gettempdir()))
    if descriptor is None:  # no place for a lock: a capture is worth more than order
        yield
        return
    try:
        _take(descriptor, wait_s, now, sleep)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, {what}".encode()[:_MOST_BYTES], 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int | None:
    """Open the file that is locked, everybody's or else this user's own; ``None`` where neither can be."""
    for name in (_NAME, f"{_NAME}-{os.getuid()}"):
        for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT):  # a shared folder may forbid creating what exists
            try:
                descriptor = os.open(folder / f"{name}.lock", flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            except OSError:
                continue
            return descriptor
    return None


def _take(descriptor: int, wait_s: float, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
    deadline = now() + wait_s
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                return  # a file system without locks
        else:
            return
        if now() >= deadline:
            owner = os.pread(descriptor, _MOST_BYTES, 0).decode("utf-8", "replace").strip()
            raise CaptureBusyError(f"another trace is being taken on this machine: {owner or 'by an unknown process'}.")
        sleep(_POLL_S)
