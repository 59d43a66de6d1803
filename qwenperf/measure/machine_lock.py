"""A lock that every process of this machine finds, on a file in a folder that all of them know.

It is the kernel's, so that it goes with the process that holds it, however that ends. It is one for all users, and who
holds it writes into its file what for; waiting, and what is said of it, is the caller's business.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # no POSIX system
    AVAILABLE = False
else:
    AVAILABLE = True

_MOST_BYTES = 400
_EVERYBODY = 0o666


def _ignore(_: str) -> None:
    """Stand in for a caller who does not want to know."""


@dataclass(frozen=True, kw_only=True)
class MachineLock:
    """The open file of a lock, which is free until ``take``; whoever opens it closes it."""

    descriptor: int
    path: Path

    @classmethod
    def at(cls, folder: Path, name: str, *, signed: bool = False) -> MachineLock:
        """Open everybody's file in ``folder``, or else this user's own; with ``signed`` one that can be written to.

        Raises:
          OSError: neither can be opened, or this system has no locks of files.
        """
        if not AVAILABLE:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        refused = OSError(errno.EACCES, os.strerror(errno.EACCES))
        for file in (f"{name}.lock", f"{name}-{os.getuid()}.lock"):
            # A shared folder may forbid creating what exists, and another user's file writing to it.
            for flags in (os.O_RDWR, os.O_RDWR if signed else os.O_RDONLY, os.O_RDWR | os.O_CREAT):
                try:
                    return cls(descriptor=_open(folder / file, flags), path=folder / file)
                except OSError as error:
                    refused = error
        raise refused

    @classmethod
    def existing(cls, path: Path) -> MachineLock:
        """Open a lock that somebody has made, to look at it.

        Raises:
          OSError: it is not there, or this system has no locks of files.
        """
        if not AVAILABLE:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        return cls(descriptor=_open(path, os.O_RDONLY), path=path)

    def try_take(self) -> bool:
        """Take the lock if it is free, and say whether it was.

        Raises:
          OSError: the file system has no locks.
        """
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                return False
            raise
        return True

    def take(
        self,
        wait_s: float,
        *,
        poll_s: float = 0.05,
        waiting: Callable[[str], None] = _ignore,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> bool:
        """Take the lock, waiting for ``wait_s`` at most, and say whether it came free.

        ``waiting`` hears what the holder has written, once for each holder; not where the lock comes free at once.

        Raises:
          OSError: the file system has no locks.
        """
        deadline, polled = now() + wait_s, False
        known: str | None = None
        while not self.try_take():
            if now() >= deadline:
                return False
            if polled and (told := self.told()) != known:
                waiting(told)
                known = told
            sleep(poll_s)
            polled = True
        return True

    def tell(self, what: str) -> None:
        """Write down what is going on, for who waits; lost where the file may only be read, or the disk is full."""
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, what.encode()[:_MOST_BYTES], 0)

    def told(self) -> str:
        """Return what the holder has written, on one line: any user may write there."""
        try:
            text = os.pread(self.descriptor, _MOST_BYTES, 0).decode("utf-8", "replace")
        except OSError:
            return ""
        return "".join(letter if letter.isprintable() else " " for letter in text).strip()

    def release(self) -> None:
        """Give the lock back, for processes too that were forked off meanwhile."""
        self.tell("")
        with suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. What was not given back is, unless a process that was forked off has it still."""
        os.close(self.descriptor)


def _open(path: Path, flags: int) -> int:
    """Open a file that is one of its own: a link in its place would have somebody else's emptied.

    Raises:
      OSError: it cannot be opened, or is none.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _EVERYBODY)
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode) or seen.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it is no file of its own")
    if flags & os.O_CREAT:
        with suppress(OSError):  # somebody else was faster
            os.fchmod(descriptor, _EVERYBODY)  # the mask of this process would keep other users out
    return descriptor
