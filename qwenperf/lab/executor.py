"""Runs one command in a fresh process: bounded in time, its noise kept in a log, its progress read from a pipe.

Knows nothing of cases: the command is a parameter. The child gets the descriptor of the pipe as its last argument
and writes one JSON object a line to it. Its standard output never reaches ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]

_POLL_S = 0.2
_TAIL_BYTES = 16_384


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a child ended. ``returncode`` is as in ``subprocess``: negative for a signal."""

    returncode: int
    timed_out: bool
    wall_s: float


def execute(
    command: Sequence[str],
    *,
    time_limit_s: float,
    log: Path,
    on_message: Callable[[Message], None],
    environ: Mapping[str, str] | None = None,
    renewed_by: str = "",
    stop: threading.Event | None = None,
) -> Ended:
    """Run ``command`` until it ends or ``time_limit_s`` passes, then kill its whole process group.

    A message that has the key ``renewed_by`` starts the time limit anew. ``stop`` ends the child as the limit does, for
    callers in a thread, which no interrupt reaches.

    The group is killed on every way out, so that an interrupt (``KeyboardInterrupt`` passes through) or a bug
    leaves nothing running.
    """
    reader, writer = os.pipe()
    start = time.monotonic()
    try:
        with log.open("wb") as log_file:
            child = subprocess.Popen(
                [*command, str(writer)],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                start_new_session=True,
                env=None if environ is None else dict(environ),
            )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    deadline = _Deadline(time_limit_s=time_limit_s, at=start + time_limit_s, stop=stop)

    def hear(message: Message) -> None:
        if renewed_by in message:
            deadline.renew()
        on_message(message)

    try:
        timed_out = not _follow(child, reader, deadline, hear)
    finally:
        _kill_group(child)
        os.close(reader)
    return Ended(returncode=child.returncode, timed_out=timed_out, wall_s=time.monotonic() - start)


@dataclass(kw_only=True)
class _Deadline:
    """When a child is given up."""

    time_limit_s: float
    at: float
    stop: threading.Event | None

    def left_s(self) -> float:
        """Return the seconds that are left; none where the child is to stop."""
        return 0.0 if self.stop is not None and self.stop.is_set() else self.at - time.monotonic()

    def renew(self) -> None:
        """Give the whole limit again."""
        self.at = time.monotonic() + self.time_limit_s


def _follow(
    child: subprocess.Popen[bytes], reader: int, deadline: _Deadline, on_message: Callable[[Message], None]
) -> bool:
    """Pass messages on until the child ends (True) or the deadline passes (False)."""
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while (left := deadline.left_s()) > 0:
            # The exit code is read before the pipe, so that what a child wrote last is never left unread.
            ended = child.poll() is not None
            if selector.get_map() and selector.select(0 if ended else min(left, _POLL_S)):
                chunk = os.read(reader, 65_536)
                if not chunk:
                    selector.unregister(reader)
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    _pass_on(line, on_message)
            elif ended:
                return True
            elif not selector.get_map():
                time.sleep(min(left, 0.01))
    return False


def _pass_on(line: bytes, on_message: Callable[[Message], None]) -> None:
    """Pass one line on; a child that was killed while writing leaves half a line, which says nothing."""
    try:
        message = json.loads(line)
    except ValueError:
        return
    if isinstance(message, dict):
        on_message(message)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and all it started: a hung compile reacts to nothing less than SIGKILL."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def signal_name(returncode: int) -> str:
    """Return the name of the signal behind a negative return code, such as ``SIGSEGV``."""
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def log_tail(log: Path, lines: int = 8) -> str:
    """Return the last lines of a log that are not blank, without reading a long log whole; empty when there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(kept[-lines:])
