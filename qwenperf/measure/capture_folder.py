"""Where a profile is written until it is whole: a hidden folder beside its place, gone afterwards.

Imports no JAX. A process that is killed leaves its folder; ``leftovers`` finds it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qwenperf.errors import OutputError

PLACE = Path("plugins") / "profile"
_TEMPORARY = ".capture-"
_NAME = re.compile(r"\.capture-(?P<process>\d+)(@(?P<host>[^-]*))?-")
_OLD_S = 3600.0


@contextmanager
def workplace(folder: Path, session: str) -> Iterator[Path]:
    """Give a folder beside the target, gone afterwards; those of processes that were killed go too.

    Raises:
      OutputError: it cannot be made.
    """
    work = folder / f"{_TEMPORARY}{os.getpid()}@{_host()}-{session}"
    try:
        _sweep(folder)
        work.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"the trace cannot be written to {folder}: {error}.") from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def leftovers(folder: Path) -> list[Path]:
    """Return the folders of captures in ``folder`` whose process is no more."""
    return [path for path in sorted(folder.glob(f"{_TEMPORARY}*")) if path.is_dir() and not _alive(path)]


def _sweep(folder: Path) -> None:
    """Remove what killed processes left here and, after an hour, in other runs beside."""
    here = f"{_TEMPORARY}{os.getpid()}@"
    for old in folder.glob(f"{_TEMPORARY}*"):
        if old.name.startswith(here) or not _alive(old):
            shutil.rmtree(old, ignore_errors=True)
    with suppress(OSError):  # somebody else may sweep the same
        for other in folder.resolve().parent.glob(f"*/{_TEMPORARY}*"):
            if not _alive(other) and other.lstat().st_mtime < time.time() - _OLD_S:
                shutil.rmtree(other, ignore_errors=True)


def _alive(work: Path) -> bool:
    """Say whether the process of a capture may still run; on another machine nobody knows."""
    match = _NAME.match(work.name)
    if match is None:
        return False
    if match["host"] not in {None, _host()}:
        return work.lstat().st_mtime > time.time() - _OLD_S
    try:
        os.kill(int(match["process"]), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return not _is_zombie(match["process"])


def _is_zombie(process: str) -> bool:
    """Say whether a process has ended and nobody has taken notice, as happens in containers."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError, UnicodeDecodeError):
        return False


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "", socket.gethostname())
