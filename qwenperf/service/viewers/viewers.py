"""The viewers of one process of the service: one a record, few at once, each until nobody has asked it for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.viewers.process import START_LIMIT_S, Viewer

IDLE_S = 15 * 60.0
YIELD_S = 60.0
"""A viewer that nobody has asked for so long makes room for another."""

_LOOK_S = 5.0
_MOST_WAITING = 3
"""Each who waits for a start holds a thread that others need."""

Key = tuple[int, Hashable]
"""A project, by its number, and what of it is shown."""


def key_of(kind: str, row: Row[Any]) -> Key:
    """Return the key of the viewer of a run or comparison: ``kind`` says which.

    Its number is not enough: SQLite gives that of the newest one, once removed, to the next.
    """
    return int(row.project_id), (kind, int(row.id), int(row.received_at))


def installed() -> bool:
    """Say whether XProf is installed beside the service."""
    return find_spec("xprof") is not None and find_spec("cheroot") is not None


class Viewers:
    """The viewers that run, by what they show. ``idle_s``: after so many seconds without a question one ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, idle_s: float = IDLE_S) -> None:
        self._clock, self._idle_s = clock, idle_s
        self._starting, self._lock = threading.Lock(), threading.Lock()
        self._open: dict[Key, Viewer] = {}
        self._waiting = 0
        self._watched = self._closed = False

    def open(self, key: Key, fill: Callable[[Path], None], most: int) -> Viewer:
        """Return a viewer; where there is none, start one on what ``fill`` writes into a folder.

        Raises:
          ServiceUnavailableError: ``most`` are in use, others are starting, or XProf does not show the traces.
        """
        found = self.find(key)
        if found is not None:
            return found
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                raise _others_start()
            self._waiting += 1
        try:
            return self._started(key, fill, most)
        finally:
            with self._lock:
                self._waiting -= 1

    def find(self, key: Key) -> Viewer | None:
        """Return a viewer; ``None`` where none runs, or no more."""
        with self._lock:
            found = self._open.get(key)
        if found is not None and not found.alive:
            self._end(key)
            return None
        return found

    def count(self) -> int:
        """Return how many run."""
        with self._lock:
            return len(self._open)

    def end_idle(self, than_s: float | None = None) -> None:
        """End those that nobody has asked for ``than_s`` seconds, by default for the time that each may be idle."""
        limit = self._idle_s if than_s is None else than_s
        with self._lock:
            over = [key for key, viewer in self._open.items() if viewer.idle_s >= limit or not viewer.alive]
        for key in over:
            self._end(key)

    def end_of(self, key: Key) -> None:
        """End the viewer of what is there no more."""
        self._end(key)

    def close(self) -> None:
        """End all of them, and start none any more."""
        with self._lock:
            self._closed = True
            keys = list(self._open)
        for key in keys:
            self._end(key)

    def _started(self, key: Key, fill: Callable[[Path], None], most: int) -> Viewer:
        # One at a time: each takes a core while it starts.
        if not self._starting.acquire(timeout=START_LIMIT_S):
            raise _others_start()
        try:
            found = self.find(key)
            if found is None:
                self._make_room(most)
                found = Viewer(fill, self._clock)
                self._keep(key, found)
        finally:
            self._starting.release()
        return found

    def _make_room(self, most: int) -> None:
        with self._lock:
            idle = max(self._open.items(), key=lambda one: one[1].idle_s, default=None)
            full = len(self._open) >= most
        if not full:
            return
        if idle is None or idle[1].idle_s < YIELD_S:
            raise ServiceUnavailableError(
                f"{most} viewers are in use, which is all that this service starts.",
                advice="Try again in some minutes, or open the traces on your own machine.",
            )
        self._end(idle[0])

    def _keep(self, key: Key, viewer: Viewer) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._open[key] = viewer
            watch = not (self._watched or closed)
            self._watched = self._watched or watch
        if closed:
            viewer.end()
            raise ServiceUnavailableError("the service is ending.")
        if watch:
            threading.Thread(target=self._watch, name="qwenperf-viewers", daemon=True).start()

    def _watch(self) -> None:
        """Look after viewers as long as there are any."""
        while True:
            time.sleep(_LOOK_S)
            self.end_idle()
            with self._lock:
                if not self._open:
                    self._watched = False
                    return

    def _end(self, key: Key) -> None:
        with self._lock:
            found = self._open.pop(key, None)
        if found is not None:
            found.end()


def _others_start() -> ServiceUnavailableError:
    return ServiceUnavailableError("other viewers are starting.", advice="Try again in a moment.")
