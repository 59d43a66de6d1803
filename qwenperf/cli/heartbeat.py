"""Says now and then what goes on while nothing else is said: a log that is silent for long looks like a hang."""

from __future__ import annotations

import threading
from collections.abc import Callable

EVERY_S = 15.0


class Heartbeat:
    """Between ``start`` and ``stop``, calls ``beat`` in a thread of its own whenever there was no news for a while."""

    def __init__(self, beat: Callable[[], None], every_s: float = EVERY_S) -> None:
        self._beat, self._every_s = beat, every_s
        self._news, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Begin to listen for news."""
        self._thread.start()

    def news(self) -> None:
        """Say that something was said: the time until the next beat begins anew."""
        self._news.set()

    def stop(self) -> None:
        """End, when a beat that has begun is over."""
        self._over = True
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over:
            if self._news.wait(self._every_s):
                self._news.clear()
            else:
                self._beat()
