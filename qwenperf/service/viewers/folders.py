"""Folders of viewers: each is held by its process, and one whose process was killed is removed at the next start.

Who holds a folder has locked the file ``owner`` in it. The system lets go of that lock when the process ends, however
that comes about, so that no number of a process has to be believed. Whatever is not provably such a folder of this user
stays: others put things into the same place.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LOG = logging.getLogger("qwenperf.service")
_PREFIX = "qwenperf-xprof-"
_MARK = "owner"
_WORDS = b"A folder of a viewer of qwenperf's service. It is removed when nobody holds a lock on this file.\n"

# A link is not followed, and a pipe waited for by nobody.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that is this process's own, and nobody else's to read."""

    path: Path
    lock: IO[bytes]

    def remove(self) -> None:
        """Remove it with all that is in it; once more is no harm."""
        with suppress(OSError), _opened(self.path, os.O_DIRECTORY) as folder:
            _clear(folder)
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


def make() -> Folder:
    """Make a folder among the temporary ones of this machine."""
    # For its owner alone.
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return Folder(path=path, lock=_marked(path))
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _marked(path: Path) -> IO[bytes]:
    """Write the mark and return it, locked: it gets its name last, so that nobody ever finds it unlocked."""
    unnamed = path / f"{_MARK}.new"
    mark = unnamed.open("wb")
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mark.write(_WORDS)
        mark.flush()
        unnamed.rename(path / _MARK)
    except BaseException:
        mark.close()
        raise
    return mark


def sweep() -> int:
    """Remove folders that nobody holds any more, and return how many those were."""
    place = tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(place) if name.startswith(_PREFIX)]  # noqa: PTH208  (names, for below)
    except OSError:
        return 0
    count = sum(_swept(Path(place, name)) for name in names)
    if count:
        _LOG.info("removed %d folders of viewers whose process was killed", count)
    return count


def _swept(path: Path) -> bool:
    """Remove a folder if it is ours and nobody's; say whether it was."""
    try:
        with _opened(path, os.O_DIRECTORY) as folder, _opened(Path(_MARK), within=folder) as mark:
            if not _is_ours(folder, mark):
                return False
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)  # is refused while its process lives
            _clear(folder)
            shutil.rmtree(path)
    except OSError as error:
        # Most are no news: it is held, goes at this moment, or is none of ours.
        _LOG.debug("%s stays: %s", path, error)
        return False
    return True


@contextmanager
def _opened(path: Path, flags: int = 0, *, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _FLAGS | flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours(folder: int, mark: int) -> bool:
    """Say whether a folder is this user's alone and bears the mark."""
    about, marked = os.fstat(folder), os.fstat(mark)
    own = {about.st_uid, marked.st_uid} == {os.geteuid()} and not stat.S_IMODE(about.st_mode) & 0o077
    return own and stat.S_ISREG(marked.st_mode) and os.read(mark, len(_WORDS) + 1) == _WORDS


def _clear(folder: int) -> None:
    """Remove all but the mark: whoever ends in between leaves the rest to the next start."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found if entry.name != _MARK]
    for name, is_folder in entries:
        if is_folder:
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
