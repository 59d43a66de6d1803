"""One capture at a time on this machine: a profiler that watches another capture shows two programs at once.

The lock is the kernel's, so that it goes with the process that holds it, however that ends. It is one for all users:
who may only read its file can hold it too, and is not named.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError

_NAME = "qwenperf-capture"
_POLL_S = 0.05
_MOST_BYTES = 400
_EVERYBODY = 0o666


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
        _tell(descriptor, f"process {os.getpid()}, {what}")
        try:
            yield
        finally:
            _tell(descriptor, "")
            with suppress(OSError):  # a process that was forked off meanwhile would hold it on
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _tell(descriptor: int, what: str) -> None:
    """Write down what is going on, for who waits."""
    with suppress(OSError):  # a file that we may only read
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, what.encode()[:_MOST_BYTES], 0)


def _open(folder: Path) -> int | None:
    """Open the file that is locked, everybody's or else this user's own; ``None`` where neither can be."""
    for name in (_NAME, f"{_NAME}-{os.getuid()}"):
        # A shared folder may forbid creating what exists, and another user's file writing to it.
        for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT):
            try:
                descriptor = os.open(folder / f"{name}.lock", flags | os.O_NOFOLLOW | os.O_NONBLOCK, _EVERYBODY)
            except OSError:
                continue
            if flags & os.O_CREAT:
                with suppress(OSError):  # somebody else was faster
                    os.fchmod(descriptor, _EVERYBODY)  # the mask of this process would keep other users out
            return descriptor
    return None


def _take(descriptor: int, wait_s: float, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
    deadline = now() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                return  # a file system without locks
        else:
            return
        if now() >= deadline:
            raise CaptureBusyError(f"another trace is being taken on this machine: {_owner(descriptor)}.")
        sleep(_POLL_S)


def _owner(descriptor: int) -> str:
    try:
        told = os.pread(descriptor, _MOST_BYTES, 0).decode("utf-8", "replace").strip()
    except OSError:
        told = ""
    return told or "by an unknown process"
