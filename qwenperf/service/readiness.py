"""Whether database and files answer, looked at by one caller at a time and remembered for a moment.

Looking writes to the file store, which may cost money, and takes a connection: a stranger who asks all the time must
not be able to make the service look all the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from qwenperf.errors import QwenperfError

READY_S = 5.0
AWAY_S = 1.0
"""So long an answer counts: shorter where it was bad, so that a service which is back is soon asked again."""


class Readiness:
    """What was seen last. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looking, self._lock = threading.Lock(), threading.Lock()
        self._seen: tuple[float, QwenperfError | None] | None = None

    def ask(self, look: Callable[[], None]) -> None:
        """Return where all is well, by what ``look`` found lately or finds now.

        Raises:
          QwenperfError: ``look`` raised it.
        """
        seen = self._lately()
        # While somebody looks, others hear what was seen before; only who comes before the first look waits for it.
        if seen is None and self._looking.acquire(blocking=self._seen is None):
            try:
                seen = self._lately() or self._look(look)
            finally:
                self._looking.release()
        seen = seen or self._seen
        assert seen is not None
        if seen[1] is not None:
            raise seen[1]

    def forget(self) -> None:
        """Look again when next asked."""
        with self._lock:
            self._seen = None

    def _lately(self) -> tuple[float, QwenperfError | None] | None:
        with self._lock:
            seen = self._seen
        return seen if seen is not None and self._clock() < seen[0] else None

    def _look(self, look: Callable[[], None]) -> tuple[float, QwenperfError | None]:
        error: QwenperfError | None = None
        try:
            look()
        except QwenperfError as found:
            error = found
        seen = self._clock() + (READY_S if error is None else AWAY_S), error
        with self._lock:
            self._seen = seen
        return seen
