"""Has series with new points looked at, in turn, keeps what is found as alerts, and looks for cases that stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Row, update

from qwenperf.service.bugs import Told
from qwenperf.service.context import Service
from qwenperf.service.db import alerts, series, stopped
from qwenperf.service.db.tables import series as series_table
from qwenperf.service.judging_series import Looked, look_at
from qwenperf.service.times import SECOND_US
from qwenperf.stats.history_stale import stale

_LOG = logging.getLogger("qwenperf.service")
_AT_ONCE = 10
"""Few, so that what is found is told soon, and lost as little as possible where the service ends meanwhile."""

_QUIET_US = 3 * 3600 * SECOND_US
"""Nothing that came later than this can be late."""

_ARRIVALS, _CASES = 60, 500
Look = Callable[[Sequence[Row[Any]]], Sequence[Looked]]


class SeriesJudge:
    """Judges series with new points, in turn: those to which points come all the time keep no other waiting."""

    def __init__(self, service: Service, look: Look | None = None) -> None:
        self._service = service
        self._look = look or partial(look_at, service.database)
        self._after = 0

    def all(self, stop: threading.Event) -> None:
        """Judge until no more than a few series have new points, or ``stop`` is set; errors as ``some``."""
        while not stop.is_set() and self.some() == _AT_ONCE:
            pass

    def some(self) -> int:
        """Judge some of the series that have new points, and return how many.

        Raises:
          ServiceUnavailableError: the database cannot be reached, or who looks was lost.
        """
        service = self._service
        with service.database.read() as connection:
            rows = series.unjudged(connection, self._after, _AT_ONCE)
        if not rows:
            return 0
        # Before they are looked at: one that ends whoever looks must not be the first again.
        self._after = rows[-1].id
        # In the order in which runs that arrive write them, so that no two wait for each other.
        rows = sorted(rows, key=lambda row: row.id)
        looked = list(zip(rows, self._look(rows), strict=True))
        for row, one in looked:
            _tell(row, one)
        _keep_found(service, looked)
        return len(rows)


def judge_new(service: Service) -> int:
    """Judge some of the series that have new points, in this thread; errors and answer as ``SeriesJudge.some``."""
    return SeriesJudge(service).some()


def _tell(row: Row[Any], looked: Looked) -> None:
    if looked.unfit:
        _warn_once(looked.unfit)
    if looked.bug:
        _LOG.error("bug in judging %s of %s; it is left until its next point\n%s", row.metric, row.case, looked.bug)


@cache
def _warn_once(reason: str) -> None:
    """Say why changes are not looked for: once, and not for every series."""
    _LOG.warning("changes of timed metrics are not looked for: %s", reason)


def _keep_found(service: Service, looked: Sequence[tuple[Row[Any], Looked]]) -> None:
    at = service.clock()
    with Told("bug in keeping what %d series show; each is tried alone", len(looked)):
        # Together: each write of its own would wait for the disk.
        service.database.write(partial(_keep_all, looked=looked, at=at))
        return
    for row, one in looked:
        _keep_or_tell(service, row, one, at)


def _keep_or_tell(service: Service, row: Row[Any], looked: Looked, at: int) -> None:
    with Told("bug in keeping what %s of %s shows; it is left", row.metric, row.case):
        service.database.write(partial(_keep_all, looked=[(row, looked)], at=at))
        return
    service.database.write(partial(_keep_all, looked=[(row, Looked())], at=at))


def _keep_all(connection: Connection, *, looked: Sequence[tuple[Row[Any], Looked]], at: int) -> None:
    for row, one in looked:
        # Judged meanwhile by another worker, or to be judged anew: what was found is no news.
        as_it_was = (series_table.c.id == row.id) & (series_table.c.judged == row.judged)
        is_new = connection.execute(update(series_table).where(as_it_was).values(judged=row.points)).rowcount
        if is_new and one.found is not None:
            alerts.keep_changes(connection, row, one.found, one.sight, at=at)


def find_stopped(service: Service) -> None:
    """Look for cases of which no run of the default branch comes any more, though they came regularly.

    Those that came back are resolved.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
    """
    now, after = service.clock(), (0, "")
    while True:
        with service.database.read() as connection:
            rows = stopped.ends(connection, after, _CASES)
            quiet = [row for row in _last(rows) if row.at < now - _QUIET_US]
            times = [stopped.arrivals(connection, row.id, _ARRIVALS, row.default_branch) for row in quiet]
        if not rows:
            break
        after = rows[-1].project_id, rows[-1].case
        for row, came in zip(quiet, times, strict=True):
            with Told("bug in looking whether %s has stopped", row.case):
                _tell_stopped(service, row, came, now)
    service.database.write(partial(stopped.resolve, at=now))


def _last(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Return one series of each case, of those that went on the longest: one that was renamed or dropped is no end."""
    found: dict[tuple[int, str], Row[Any]] = {}
    for row in rows:
        known = found.get((row.project_id, row.case))
        if row.run_id is not None and (known is None or (row.at, row.run_id) > (known.at, known.run_id)):
            found[row.project_id, row.case] = row
    return list(found.values())


def _tell_stopped(service: Service, row: Row[Any], came: Sequence[int], now: int) -> None:
    late = stale([at / SECOND_US for at in came], now / SECOND_US)
    if late is not None:
        days = late.age_s / 86400
        told = f"no run of {row.case} for {days:.1f} days; one came every {late.typical_s / 3600:.0f} hours"
        found = [alerts.Found(run_id=row.run_id, at=max(came), summary=told, family="stopped")]
        service.database.write(partial(_keep_stopped, row=row, found=found, at=now))


def _keep_stopped(connection: Connection, *, row: Row[Any], found: Sequence[alerts.Found], at: int) -> None:
    alerts.keep(connection, row, alerts.STOPPED, found, at=at)
