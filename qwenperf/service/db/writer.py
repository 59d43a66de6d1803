"""The one writer of SQLite: many pieces of work, one commit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

from qwenperf.service.problems import ServiceUnavailableError

Result = TypeVar("Result")

_MOST_AT_ONCE = 64
_END_S = 60.0


@dataclass(kw_only=True)
class _Job:
    work: Callable[[Connection], Any]
    done: Future[Any] = field(default_factory=Future)
    value: Any = None
    error: BaseException | None = None


class GroupWriter:
    """A thread that owns the writing connection. Whoever calls ``write`` waits for the commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="qwenperf-writer", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[Connection], Result], wait_s: float | None) -> Result:
        """Run ``work`` and return what it returns, after the commit that holds it.

        Raises:
          ServiceUnavailableError: the service ends, or the writer is behind by more than ``wait_s``.
        """
        job = _Job(work=work)
        with self._lock:
            if self._closed:
                raise ServiceUnavailableError("the service is ending.")
            self._jobs.put(job)
        try:
            result: Result = job.done.result(timeout=wait_s)
        except TimeoutError as error:
            # Work that nobody waits for any more is not begun; of what is under way the answer is not known.
            job.done.cancel()
            raise ServiceUnavailableError("the database is behind.") from error
        return result

    def close(self) -> None:
        """Write what waits, then end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join(timeout=_END_S)
        self._engine.dispose()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            jobs, more = self._take(job)
            self._commit([one for one in jobs if one.done.set_running_or_notify_cancel()])
            if not more:
                return

    def _take(self, first: _Job) -> tuple[list[_Job], bool]:
        """Return all that waits, and whether there will be more."""
        jobs = [first]
        with suppress(queue.Empty):
            while len(jobs) < _MOST_AT_ONCE:
                job = self._jobs.get_nowait()
                if job is None:
                    return jobs, False
                jobs.append(job)
        return jobs, True

    def _commit(self, jobs: list[_Job]) -> None:
        """Run and commit ``jobs`` together; where that fails, one by one, so that each bears its own fault only."""
        try:
            with self._engine.begin() as connection:
                for job in jobs:
                    _run(job, connection)
        except BaseException as error:  # noqa: BLE001  (whoever waits must hear of it, whatever it is)
            if len(jobs) > 1:
                for job in jobs:
                    self._commit([job])
                return
            jobs[0].error = error
        for job in jobs:
            if job.error is not None:
                job.done.set_exception(job.error)
            else:
                job.done.set_result(job.value)


def _run(job: _Job, connection: Connection) -> None:
    """Run one piece of work in a savepoint; what SQLite itself refuses ends the whole transaction."""
    job.value = job.error = None
    # As SQL: the nested transactions of SQLAlchemy take longer than the savepoints.
    connection.exec_driver_sql("SAVEPOINT piece")
    try:
        job.value = job.work(connection)
    except DBAPIError as error:
        if not _is_own_fault(error):
            raise
        job.error = error
    except Exception as error:  # noqa: BLE001  (belongs to whoever asked, and is raised there)
        job.error = error
    if job.error is not None:
        connection.exec_driver_sql("ROLLBACK TO piece")
    connection.exec_driver_sql("RELEASE piece")


def _is_own_fault(error: DBAPIError) -> bool:
    """Say whether the statement was wrong, and not the database: then only its own savepoint goes."""
    return isinstance(error, IntegrityError | DataError | ProgrammingError)
