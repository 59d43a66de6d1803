"""The one way to the database: consistent reads, and writes that are durable when ``write`` returns.

SQLite has one writer: a thread that takes all work which waits, runs each piece in a savepoint of its own, and commits
them together, because what takes time is the disk's acknowledgement and not the rows. PostgreSQL has many: each piece
of work is a transaction, run again where it lost a race.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from qwenperf.errors import UsageError
from qwenperf.service.db.engines import postgresql_engine, sqlite_engine
from qwenperf.service.db.writer import GroupWriter
from qwenperf.service.problems import ConflictError, ServiceUnavailableError

Result = TypeVar("Result")

_LOG = logging.getLogger("qwenperf.service")
_UNHOLDABLE = "Leave out NUL characters, halves of characters, and numbers beyond 64 bits."
_TRIES = 6
_LOST_A_RACE = ("40001", "40P01", "23505", "23503")
"""Serialisation failure, deadlock, and a name that somebody else took, or a row that went, since we looked."""
_TOO_LONG = "54000"
"""Such as a name that no index of PostgreSQL has room for: asking again helps nothing."""


class Database:
    """One database of the service. ``close`` ends its connections and its writer."""

    def __init__(self, url: str, *, pool_size: int = 16) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite")
        self._writer: GroupWriter | None = None
        if self.is_sqlite:
            self.engine: Engine = sqlite_engine(url, pool_size=pool_size)
            self._reader = self.engine
            self._writer = GroupWriter(sqlite_engine(url, pool_size=1, writes=True))
        else:
            self.engine = postgresql_engine(url, pool_size=pool_size)
            self._reader = self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees one state of the database, whatever is written meanwhile.

        Raises:
          ServiceUnavailableError: the database cannot be reached.
        """
        with translated(), self._reader.connect() as connection:
            yield connection

    def write(self, work: Callable[[Connection], Result], *, wait_s: float | None = 60.0) -> Result:
        """Run ``work`` in a transaction and return what it returns, once that is durable.

        ``work`` may run more than once: it touches nothing but its connection. ``wait_s``: how long to wait for a turn.

        Raises:
          ServiceUnavailableError: the database cannot be reached or has no room; nothing was kept.
        """
        with translated():
            if self._writer is not None:
                return self._writer.write(work, wait_s)
            return self._race(work)

    def _race(self, work: Callable[[Connection], Result]) -> Result:
        for attempt in range(1, _TRIES + 1):
            try:
                with self.engine.begin() as connection:
                    return work(connection)
            except DBAPIError as error:
                state = getattr(error.orig, "sqlstate", None)
                if state not in _LOST_A_RACE or attempt == _TRIES:
                    raise
                time.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  (spreads rivals, guards nothing)
        raise AssertionError  # pragma: no cover  (the last try returns or raises)

    def close(self) -> None:
        """Wait for what is being written, then end every connection."""
        if self._writer is not None:
            self._writer.close()
        self.engine.dispose()


@contextmanager
def translated() -> Iterator[None]:
    """Turn the database's refusals into errors of ours.

    Raises:
      ServiceUnavailableError: it cannot be reached, is locked, or has no room.
      ConflictError: it contradicts what is there.
      UsageError: a value that no database can hold.
    """
    try:
        yield
    except NoConnectionError as error:
        raise ServiceUnavailableError("every connection to the database is busy.") from error
    except (DataError, OverflowError, UnicodeEncodeError) as error:
        raise UsageError("a value is one that no database can hold.", advice=_UNHOLDABLE) from error
    except IntegrityError as error:
        raise ConflictError("this contradicts what is there.", advice="Look again: somebody was faster.") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _TOO_LONG:
            raise UsageError("a value is longer than the database can hold.", advice="Send shorter names.") from error
        # The driver's words name hosts and files: they are for the log, not for whoever asked.
        _LOG.warning("database: %s", str(error.orig).strip().partition("\n")[0])
        raise ServiceUnavailableError("the database cannot be reached, is locked, or has no room.") from error
