"""Looks for changes in series whose points are new, and for series that have stopped; what is found is an alert.

Only runs of a project's default branch count: what a branch changes is nobody's alert before it is merged.
A change is confirmed when enough points show it: several of a timed metric, two of a deterministic one, which is exact
and so may be told of, as open, at the first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Row, update

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.gate.history import judge_series
from qwenperf.gate.history_input import MOST
from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.regressions import Form, Regression, RegressionStatus
from qwenperf.schema.series import Point, Series
from qwenperf.service.bugs import Told
from qwenperf.service.context import Service
from qwenperf.service.db import alerts, series
from qwenperf.service.db.tables import series as series_table
from qwenperf.service.times import SECOND_US, iso
from qwenperf.stats.history_stale import stale
from qwenperf.units import quantity

_LOG = logging.getLogger("qwenperf.service")
_AT_ONCE = 10
"""Few, so that a page waits for a part of a second at most."""

_QUIET_US = 3 * 3600 * SECOND_US
"""Nothing that came later than this can be late."""

_ARRIVALS = 60
_OPEN = (RegressionStatus.NEW,)


def judge_new(service: Service) -> int:
    """Judge some of the series that have new points, and return how many.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
    """
    with service.database.read() as connection:
        rows = series.unjudged(connection, _AT_ONCE)
    # In the order in which runs that arrive write them, so that no two wait for each other.
    looked = [(row, _look(service, row)) for row in sorted(rows, key=lambda row: row.id)]
    at = service.clock()
    with Told("bug in keeping what %d series show; each is tried alone", len(looked)):
        # Together: each write of its own would wait for the disk.
        service.database.write(partial(_keep_all, looked=looked, at=at))
        return len(rows)
    for row, found in looked:
        _keep_or_tell(service, row, found, at)
    return len(rows)


def _look(service: Service, row: Row[Any]) -> Sequence[alerts.Found] | None:
    """Return what is to be told of a series; ``None`` where nobody could look: what was found before then stays."""
    with Told("bug in judging %s of %s; it is left until its next point", row.metric, row.case):
        with service.database.read() as connection:
            points = series.newest(connection, row.id, MOST, row.default_branch)
        try:
            return _changes(row, points)
        except EnvironmentUnfitError as error:
            _warn_once(str(error))
    return None


def _keep_or_tell(service: Service, row: Row[Any], found: Sequence[alerts.Found] | None, at: int) -> None:
    with Told("bug in keeping what %s of %s shows; it is left", row.metric, row.case):
        service.database.write(partial(_keep_all, looked=[(row, found)], at=at))
        return
    service.database.write(partial(_keep_all, looked=[(row, None)], at=at))


def _keep_all(
    connection: Connection, *, looked: Sequence[tuple[Row[Any], Sequence[alerts.Found] | None]], at: int
) -> None:
    for row, found in looked:
        connection.execute(update(series_table).where(series_table.c.id == row.id).values(judged=row.points))
        if found is not None:
            alerts.keep(connection, row, alerts.CHANGE, found, at=at)


def _changes(row: Row[Any], points: Sequence[Row[Any]]) -> list[alerts.Found]:
    """Return what became worse in a series and was neither taken back nor accepted."""
    if not points:
        return []
    known = Series(
        case=row.case,
        metric=row.metric,
        unit=row.unit,
        direction=Direction(row.direction),
        kind=Kind(row.kind),
        points=tuple(_point(point) for point in points),
    )
    judged = judge_series(known)
    places = {point.run: place for place, point in enumerate(points)}
    found = [
        _found(row, one, points, places[one.run])
        for one in judged.regressions
        if one.status in _OPEN and points[places[one.run]].accepted is None
    ]
    told = {places[one.run] for one in judged.regressions}
    return [*found, *_suspected(row, points, told)]


@cache
def _warn_once(reason: str) -> None:
    """Say why changes are not looked for: once, and not for every series."""
    _LOG.warning("changes of timed metrics are not looked for: %s", reason)


def _suspected(row: Row[Any], points: Sequence[Row[Any]], told: set[int]) -> list[alerts.Found]:
    """Return what one run alone says of a number without noise: open until another run of its machine says it too.

    ``told``: places of what is known already.
    """
    if row.kind != Kind.DETERMINISTIC or row.direction == Direction.NONE or row.metric in ROUNDING:
        return []
    known = told | {place for place, point in enumerate(points) if point.accepted is not None}
    found = []
    for place, last in _turns(points):
        before, after = points[place].value, points[last].value
        worse = after > before if row.direction == Direction.LOWER else after < before
        # Machines that take turns show one change, each at its own.
        if worse and not known.intersection(range(place + 1, last + 1)):
            known.add(last)
            found.append(_suspicion(row, points[last], before))
    return found


def _turns(points: Sequence[Row[Any]]) -> list[list[int]]:
    """Return the places of the last two points of each machine that measured since the newest one did before."""
    places: dict[str, list[int]] = {}
    for place, point in enumerate(points):
        places.setdefault(point.environment, []).append(place)
    since = places[points[-1].environment][-2:][0]
    return sorted((own[-2:] for own in places.values() if len(own) > 1 and own[-1] >= since), key=lambda own: own[-1])


def _suspicion(row: Row[Any], last: Row[Any], before: float) -> alerts.Found:
    told = f"{row.metric} {quantity(before, row.unit)} to {quantity(last.value, row.unit)}"
    return alerts.Found(
        run_id=last.run_id,
        at=last.at,
        summary=f"{told} in run {last.run}; one run so far",
        family=last.commit or last.run,
        before=before,
        after=last.value,
    )


def _found(row: Row[Any], one: Regression, points: Sequence[Row[Any]], place: int) -> alerts.Found:
    begins = points[place]
    size = f"{one.size:+.1%}" if one.is_relative else f"{one.size:+g} {row.unit}"
    told = f"{row.metric} {size}: {quantity(one.before, row.unit)} to {quantity(one.after, row.unit)}"
    way = "drifts since" if one.form is Form.DRIFT else "since"
    cause = f" ({one.cause}: {'; '.join(one.explained)})" if one.explained else ""
    return alerts.Found(
        run_id=begins.run_id,
        at=begins.at,
        summary=f"{told} {way} run {begins.run}{cause}",
        state=alerts.CONFIRMED,
        # What begins at one commit, or else at one run, has one cause more often than not.
        family=begins.commit or begins.run,
        before=one.before,
        after=one.after,
    )


def _point(row: Row[Any]) -> Point:
    return Point(
        value=row.value,
        run=row.run,
        measured_at=iso(row.measured_at),
        commit=row.commit,
        committed_at="" if row.committed_at is None else iso(row.committed_at),
        branch=row.branch,
        environment=row.environment,
        interval=None if row.low is None else (row.low, row.high),
        samples=row.samples,
        accepted=row.accepted,
    )


def find_stopped(service: Service) -> None:
    """Look for cases of which no run comes any more, though they came regularly; resolve those that came back.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
    """
    now = service.clock()
    with service.database.read() as connection:
        rows = series.quiet(connection, now - _QUIET_US, 1000)
        times = [series.arrivals(connection, row.id, _ARRIVALS) for row in rows]
    for row, came in zip(rows, times, strict=True):
        with Told("bug in looking whether %s has stopped", row.case):
            _tell_stopped(service, row, came, now)
    service.database.write(partial(alerts.resolve_stopped, at=now))


def _tell_stopped(service: Service, row: Row[Any], came: Sequence[int], now: int) -> None:
    late = stale([at / SECOND_US for at in came], now / SECOND_US)
    if late is not None:
        days = late.age_s / 86400
        told = f"no run of {row.case} for {days:.1f} days; one came every {late.typical_s / 3600:.0f} hours"
        found = [alerts.Found(run_id=row.last_run_id, at=max(came), summary=told, family="stopped")]
        service.database.write(partial(_keep_stopped, row=row, found=found, at=now))


def _keep_stopped(connection: Connection, *, row: Row[Any], found: Sequence[alerts.Found], at: int) -> None:
    alerts.keep(connection, row, alerts.STOPPED, found, at=at)
