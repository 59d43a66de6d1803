"""Where a profile is written until it is whole: a hidden folder beside its place, gone afterwards.

Imports no JAX. A process that is killed leaves its folder; ``leftovers`` finds it. Only what has the name of such a
folder is ever removed, where a capture was asked for or in a folder that has the name of a run, never through a link.
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
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}$")
"""How the names of our runs and comparisons end."""

_UNDER_WAY = ".under-way-"
_TEMPORARY = ".capture-"
_CAPTURE = re.compile(r"\.capture-(?P<process>\d+)(@(?P<host>[^-]*))?-")
_MARK = re.compile(r"\.under-way-(?P<process>\d+)@(?P<host>[^-]*)$")
_OLD_S = 3600.0
_DAY_S = 24 * 3600.0


@contextmanager
def workplace(folder: Path, session: str) -> Iterator[Path]:
    """Give a folder beside the target, gone afterwards; those of processes that were killed go too.

    Raises:
      OutputError: it cannot be made.
    """
    work = folder / f"{_TEMPORARY}{_self()}-{session}"
    try:
        _sweep(folder)
        work.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"the trace cannot be written to {folder}: {error}.") from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def under_way(folder: Path) -> Iterator[None]:
    """Mark a run's folder as written by this process until the block ends; a kill leaves a mark that says nothing."""
    mark = folder / f"{_UNDER_WAY}{_self()}"
    with suppress(OSError):  # whoever writes the record tells what is wrong
        mark.touch()
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink()


def is_under_way(folder: Path) -> bool | None:
    """Say whether a process that marked ``folder`` still runs; ``None`` where there is no mark."""
    marks = [(path, _MARK.match(path.name)) for path in folder.glob(f"{_UNDER_WAY}*")]
    known = [_alive(path, match, _DAY_S) for path, match in marks if match]
    return any(known) if known else None


def leftovers(folder: Path) -> list[Path]:
    """Return the folders of captures in ``folder`` whose process is no more."""
    return [path for path, match in _captures(folder) if not _alive(path, match, _OLD_S)]


def _captures(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    """Return what has the name of a capture's folder and is one, with the parts of its name."""
    found = ((path, _CAPTURE.match(path.name)) for path in sorted(folder.glob(f"{_TEMPORARY}*")))
    return [(path, match) for path, match in found if match and path.is_dir() and not path.is_symlink()]


def _sweep(folder: Path) -> None:
    """Remove what killed processes left here and, after an hour, in other runs of ours beside."""
    here = f"{_TEMPORARY}{_self()}-"
    for old, match in _captures(folder):
        if old.name.startswith(here) or not _alive(old, match, _OLD_S):
            shutil.rmtree(old, ignore_errors=True)
    with suppress(OSError):  # somebody else may sweep the same
        for run in folder.resolve().parent.iterdir():
            if RUN_ID.search(run.name) and run.is_dir() and not run.is_symlink():
                for old in leftovers(run):
                    if old.lstat().st_mtime < time.time() - _OLD_S:
                        shutil.rmtree(old, ignore_errors=True)


def _alive(work: Path, match: re.Match[str], old_s: float) -> bool:
    """Say whether the process that a name tells of may still run; on another machine, whether it is younger."""
    if match["host"] not in {None, _host()}:
        try:
            return work.lstat().st_mtime > time.time() - old_s
        except OSError:
            return False
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


def _self() -> str:
    return f"{os.getpid()}@{_host()}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "", socket.gethostname())
