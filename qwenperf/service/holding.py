"""Holds the files of a service while somebody copies them: what retention forgets meanwhile is removed afterwards.

A hold is a row with an end. Whoever holds puts that off; one that was killed holds for a while yet, and for no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from qwenperf.service.context import now_us
from qwenperf.service.db import holds
from qwenperf.service.db.database import Database
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.times import SECOND_US

LASTS_US = 3600 * SECOND_US
_PUT_OFF_US = 60 * SECOND_US


class Hold:
    """Holds all files of a service in a ``with`` block; what the database has when that begins can be copied in it."""

    def __init__(self, database: Database, clock: Callable[[], int] = now_us) -> None:
        self._database, self._clock = database, clock
        self._number = 0
        self._since = 0

    def __enter__(self) -> Self:
        """Begin.

        Raises:
          ServiceUnavailableError: the database cannot be written to.
        """
        self._since = self._clock()
        self._number = self._database.write(partial(holds.hold, at=self._since, ends_at=self._since + LASTS_US))
        return self

    def go_on(self) -> None:
        """Put the end off, if that was last done a while ago: to be called all the time."""
        at = self._clock()
        if at - self._since < _PUT_OFF_US:
            return
        self._since = at
        # There is time: the next one may reach the database.
        with suppress(ServiceUnavailableError):
            self._database.write(partial(holds.hold_until, number=self._number, ends_at=at + LASTS_US))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; where the database is away it ends by itself."""
        with suppress(ServiceUnavailableError):
            self._database.write(partial(holds.let_go, number=self._number))
