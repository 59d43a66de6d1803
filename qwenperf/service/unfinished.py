"""Folders that get their name when they are whole. What a process that was killed has left of one is begun anew.

Until then a folder is ``NAME.unfinished``, and whoever fills it has locked the file ``owner`` in it. The system lets go
of that lock when the process ends, however that comes about. What bears no such mark is not touched.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from qwenperf.errors import OutputError

_MARK = "owner"
_WORDS = b"What is beside this file is not finished. It is begun anew when nobody holds a lock on this file.\n"
_OTHER = "Name a new folder."


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder of another name that becomes ``folder`` when the block ends, and goes where that fails.

    Raises:
      OutputError: ``folder`` is there, cannot be made, or is being made by somebody else.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    if folder.exists():
        raise OutputError(f"{folder} is there already.", advice=_OTHER)
    try:
        if unfinished.exists():
            _remove_left(unfinished)
        # For its owner alone.
        unfinished.mkdir(mode=0o700, parents=True)
        mark = _marked(unfinished)
    except OSError as error:
        raise OutputError(f"cannot make {unfinished}: {error.strerror}.") from error
    with mark:
        try:
            yield unfinished
        except BaseException:
            _clear(unfinished)
            raise
        unfinished.rename(folder)
        (folder / _MARK).unlink()


def _marked(folder: Path) -> IO[bytes]:
    """Write the mark and return it, locked: it gets its name last, so that nobody finds it unlocked."""
    unnamed = folder / f"{_MARK}.new"
    mark = unnamed.open("wb")
    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    mark.write(_WORDS)
    mark.flush()
    unnamed.rename(folder / _MARK)
    return mark


def _remove_left(folder: Path) -> None:
    """Remove what a process that was killed has left.

    Raises:
      OutputError: somebody is at it, or it is something else.
    """
    path = folder / _MARK
    if not path.is_file() or path.read_bytes() != _WORDS:
        advice = "Remove it if nobody writes to it, or name a new folder."
        raise OutputError(f"{folder} is there already.", advice=advice)
    with path.open("rb") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{folder} is being written by another process.", advice=_OTHER) from None
        _clear(folder)


def _clear(folder: Path) -> None:
    """Remove a folder, its mark last: whoever is killed meanwhile leaves one that the next removes."""
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        elif one.name != _MARK:
            one.unlink()
    with suppress(OSError):
        shutil.rmtree(folder)
