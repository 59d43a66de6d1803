"""One measurement at a time on this machine: two at once time each other, and no number of theirs shows it.

Whoever measures holds the machine for as long as takes what is judged as one thing, and takes hold before anything is
measured, so that no wait costs what is measured already. The processes that it starts are handed its hold down by a
variable: it names the lock's file and what the holder wrote into it, and is worth nothing once the holder is gone.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from qwenperf import units
from qwenperf.errors import ConfigError, MachineBusyError
from qwenperf.measure import machine_lock
from qwenperf.measure.machine_lock import MachineLock

FOLDER, WAIT = "QWENPERF_LOCK", "QWENPERF_LOCK_WAIT"
HANDED_DOWN = "_QWENPERF_MEASURING"
"""Begins otherwise than settings do: a revision from before it refuses variables of ours that it does not know."""

WAIT_S = 3600.0
_POLL_S = 0.5
"""Who waits is beside a measurement, and must cost it nothing."""

_NAME = "qwenperf-measuring"
_EVERYWHERE = Path("/tmp")  # noqa: S108  (the lock follows no link and trusts nothing in it)
"""The same for all processes, whatever ``TMPDIR`` says to each."""

_MOST_LETTERS = 200
_UNSIGNED = "a process that does not say which"


def _to_stderr(line: str) -> None:
    """Write one line; where that is impossible it is lost."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"qwenperf: {line}\n")
        sys.stderr.flush()


@dataclass(kw_only=True)
class _Hold:
    """This process's hold on the machine; ``depth`` is how many blocks are within it. ``say`` has what people read."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    lock: MachineLock | None = None
    depth: int = 0
    say: Callable[[str], None] = _to_stderr
    said_without: bool = False


_HOLD = _Hold()


@contextmanager
def one_measurement() -> Iterator[None]:
    """Let nobody else measure on this machine until the block ends.

    A block within a block goes on at once, and so does one in a process that was started within one.

    Raises:
      MachineBusyError: another measurement went on for as long as this one may wait; names it.
      ConfigError: ``QWENPERF_LOCK`` names no folder for locks, or ``QWENPERF_LOCK_WAIT`` no time.
    """
    held = _enter()
    try:
        yield
    finally:
        if held:
            _leave()


@contextmanager
def told_by(say: Callable[[str], None]) -> Iterator[None]:
    """Until the block ends, have what is waited for told by ``say`` instead of on stderr."""
    before, _HOLD.say = _HOLD.say, say
    try:
        yield
    finally:
        _HOLD.say = before


def _enter() -> bool:
    """Take hold of the machine, or go deeper; say whether there is something to leave."""
    with _HOLD.guard:
        if _HOLD.lock is None:
            if is_handed_down(os.environ.get(HANDED_DOWN, "")):
                return False
            _HOLD.lock = _take(os.environ)
            if _HOLD.lock is None:
                return False
        _HOLD.depth += 1
    return True


def _leave() -> None:
    with _HOLD.guard:
        if _HOLD.lock is None:  # forked off within the block
            return
        _HOLD.depth -= 1
        if not _HOLD.depth:
            os.environ.pop(HANDED_DOWN, None)
            with closing(_HOLD.lock) as lock:
                _HOLD.lock = None
                lock.release()


def _forget() -> None:
    """Let go, in a process that was forked off, of what its parent holds: it would hold on when the parent is gone."""
    lock, _HOLD.guard, _HOLD.lock, _HOLD.depth = _HOLD.lock, threading.Lock(), None, 0
    if lock is not None:
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _take(environ: Mapping[str, str]) -> MachineLock | None:
    """Take the lock and prepare to hand it down; ``None``, and a line that says why, where there can be none."""
    wait_s = _wait_s(environ)
    try:
        lock = MachineLock.at(_folder(environ), _NAME, signed=True)
    except OSError as error:
        _without(environ, error)
        return None
    try:
        _wait(lock, wait_s)
        sign = f"{os.getpid()}-{secrets.token_hex(8)}"
        lock.tell(f"{sign} {_who()}")
        os.environ[HANDED_DOWN] = f"{sign} {lock.path}"
    except OSError as error:  # a file system without locks
        lock.close()
        _without(environ, error)
        return None
    except BaseException:
        lock.close()
        raise
    return lock


def _wait(lock: MachineLock, wait_s: float) -> None:
    most = f"{units.seconds(wait_s)} at most ({WAIT})"

    def say(told: str) -> None:
        _HOLD.say(f"waiting, {most}, for another measurement on this machine: {_holder(told)}")

    if not lock.take(wait_s, poll_s=_POLL_S, waiting=say):
        seen = f"another measurement runs on this machine: {_holder(lock.told())}"
        raise MachineBusyError(f"{seen}; this one waited {units.seconds(wait_s)} for it.")


def is_handed_down(told: str) -> bool:
    """Say whether ``told`` is of a process that holds the lock at this moment and has started this one."""
    sign, _, path = told.partition(" ")
    holder = sign.partition("-")[0]
    if not (path and holder.isdecimal() and _is_ancestor(int(holder))):
        return False
    try:
        with closing(MachineLock.existing(Path(path))) as lock:
            # Nothing is written there where the disk was full.
            return not lock.try_take() and lock.told().partition(" ")[0] in {"", sign}
    except OSError:
        return False


def _is_ancestor(process: int) -> bool:
    """Say whether ``process`` is this one or one that it comes from; believed where the system does not tell."""
    one = os.getpid()
    while one not in {0, 1, process}:
        try:
            one = int(Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return True
    return one == process


def _folder(environ: Mapping[str, str]) -> Path:
    given = environ.get(FOLDER)
    if given:
        return Path(given).absolute()
    return _EVERYWHERE if _EVERYWHERE.is_dir() else Path(tempfile.gettempdir())


def _wait_s(environ: Mapping[str, str]) -> float:
    given = environ.get(WAIT)
    if not given:
        return WAIT_S
    with suppress(ValueError):
        wait_s = float(given)
        if math.isfinite(wait_s) and wait_s >= 0:
            return wait_s
    raise ConfigError(f"{WAIT} is {given!r}: expected a number of seconds, 0 or more.")


def _without(environ: Mapping[str, str], error: OSError) -> None:
    """Go on without a lock, and say so once; a folder that somebody chose for it is a mistake to be told.

    Raises:
      ConfigError: no lock can be in the folder that ``QWENPERF_LOCK`` names.
    """
    why = error.strerror or str(error)
    if environ.get(FOLDER) and machine_lock.AVAILABLE:
        raise ConfigError(
            f"{FOLDER} is {environ[FOLDER]!r}: no lock can be held there ({why}).",
            advice="Name a folder that exists and that every measurement on this machine may write to.",
        ) from error
    if not _HOLD.said_without:
        _HOLD.said_without = True
        advice = f" Set {FOLDER} to a folder that can hold a lock." if machine_lock.AVAILABLE else ""
        _HOLD.say(f"warning: nothing keeps another measurement from running beside this one: no lock ({why}).{advice}")


def _who() -> str:
    """Return what others are told of this process."""
    first, *rest = getattr(sys, "argv", None) or [""]
    name = Path(first).parent.name if Path(first).stem == "__main__" else Path(first).name
    command = " ".join((name or "python", *rest))[:_MOST_LETTERS]
    return f"process {os.getpid()} ({command}), since {datetime.now(UTC).isoformat(timespec='seconds')}"


def _holder(told: str) -> str:
    return told.partition(" ")[2] or _UNSIGNED
