"""Looks at series in a process of its own: it computes for seconds, and in the service's every answer would wait.

The process reads the database and is told which series; what it finds comes back through a pipe. It ends when the pipe
does, which is when whoever started it ends, however that comes about.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from sqlalchemy import Row

from qwenperf.service.db.database import Database
from qwenperf.service.judging_series import Looked, look_at
from qwenperf.service.problems import ServiceUnavailableError

_LONGEST_S = 300.0
"""Whoever takes longer for one round of series does not come back."""

_STEPS_BACK = 3
"""By how much it is nicer than who answers: where both want a core, answers come first, and it has a third of it."""


class JudgeProcess:
    """A process that looks at series of one database: begun when it is first asked, and again after it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._closed = False
        self._running: tuple[SpawnProcess, Connection] | None = None

    def look(self, rows: Sequence[Row[Any]]) -> Sequence[Looked]:
        """Look at series as ``look_at`` does, elsewhere. One asks at a time.

        Raises:
          ServiceUnavailableError: the database cannot be reached; the process was lost, or takes too long.
        """
        try:
            pipe = self._begun()
            pipe.send(list(rows))
            if not pipe.poll(_LONGEST_S):
                self._end()
                raise ServiceUnavailableError("what judges series did not come back; it begins anew.")
            said: list[Looked] | str = pipe.recv()
        except (EOFError, OSError) as error:
            self._end()
            raise ServiceUnavailableError("what judges series was lost (killed?); it begins anew.") from error
        if isinstance(said, str):
            raise ServiceUnavailableError(said)
        return said

    def close(self) -> None:
        """End the process, whatever it is at: it only reads."""
        with self._lock:
            self._closed = True
        self._end()

    def _begun(self) -> Connection:
        with self._lock:
            if self._closed:
                raise ServiceUnavailableError("the service is ending.")
            if self._running is None:
                # Not forked: a copy of this process would have its threads' locks, and its sockets.
                spawn = multiprocessing.get_context("spawn")
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=_serve, args=(theirs, self._url), name="qwenperf-judge", daemon=True)
                process.start()
                theirs.close()
                self._running = process, ours
            return self._running[1]

    def _end(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            # Its pipe closes when nobody reads it any more: another thread may be at it.
            process, _ = running
            process.kill()
            process.join()


def _serve(pipe: Connection, url: str) -> None:
    """Answer until the pipe ends. What stops the service stops this by the pipe, after the service's own last words."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_STEPS_BACK)
    threading.Thread(target=_end_with_parent, name="qwenperf-parent", daemon=True).start()
    database = Database(url, pool_size=1)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_looked(database, pipe.recv()))


def _end_with_parent() -> None:
    """End at once when whoever asked was killed: the pipe would tell only after what is being looked at."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _looked(database: Database, rows: Sequence[Row[Any]]) -> list[Looked] | str:
    try:
        return look_at(database, rows)
    except ServiceUnavailableError as error:
        return str(error)
