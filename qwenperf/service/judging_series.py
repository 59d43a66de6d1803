"""What the points of a series show: changes for the worse that nobody took back or accepted.

Only runs of a project's default branch count: what a branch changes is nobody's alert before it is merged.
A change is confirmed when enough points show it: several of a timed metric, two of a deterministic one, which is exact
and so may be told of, as open, at the first. It reads and computes; whoever asked keeps what was found.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.gate.history import judge_series
from qwenperf.gate.history_input import MOST
from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.regressions import Form, Regression, RegressionStatus
from qwenperf.schema.series import Point, Series
from qwenperf.service.db import alerts, series
from qwenperf.service.db.database import Database
from qwenperf.service.db.same_change import DRIFTS, Sight
from qwenperf.service.judging_near import Line, in_sight, likely, line_of, near
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.times import iso
from qwenperf.units import quantity

_OPEN = (RegressionStatus.NEW,)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What is to be told of a series; ``None`` where nobody could look, because of ``unfit`` or of a ``bug``.

    ``sight``: how far it was looked at; ``None``: whole.
    """

    found: Sequence[alerts.Found] | None = None
    sight: Sight | None = None
    unfit: str = ""
    bug: str = ""


def look_at(database: Database, rows: Sequence[Row[Any]]) -> list[Looked]:
    """Look at series, rows of ``db.series.unjudged``; one that cannot be judged keeps no other from it.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
    """
    return [_look(database, row) for row in rows]


def _look(database: Database, row: Row[Any]) -> Looked:
    try:
        with database.read() as connection:
            # One more than is looked at: whether there are more.
            points = series.newest(connection, row.id, MOST + 1, row.default_branch)
        return _changes(row, points) if points else Looked(found=())
    except EnvironmentUnfitError as error:
        return Looked(unfit=str(error))
    except ServiceUnavailableError:
        raise
    except Exception:  # noqa: BLE001  (whoever asked tells of it)
        return Looked(bug=traceback.format_exc())


def _changes(row: Row[Any], points: Sequence[Row[Any]]) -> Looked:
    """Return what became worse in a series and was neither taken back nor accepted."""
    known = Series(
        case=row.case,
        metric=row.metric,
        unit=row.unit,
        direction=Direction(row.direction),
        kind=Kind(row.kind),
        points=tuple(_point(point) for point in points),
    )
    judged = judge_series(known)
    line = line_of(points, judged)
    found = [
        _found(row, one, line)
        for one in judged.regressions
        if one.status in _OPEN and points[line.places[one.run]].accepted is None
    ]
    told = {line.places[one.run] for one in judged.regressions}
    return Looked(found=[*found, *_suspected(row, points, told)], sight=in_sight(line, known.direction))


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


def _found(row: Row[Any], one: Regression, line: Line) -> alerts.Found:
    begins = line.points[line.places[one.run]]
    size = f"{one.size:+.1%}" if one.is_relative else f"{one.size:+g} {row.unit}"
    told = f"{row.metric} {size}: {quantity(one.before, row.unit)} to {quantity(one.after, row.unit)}"
    way = DRIFTS if one.form is Form.DRIFT else "since"
    cause = f" ({one.cause}: {'; '.join(one.explained)})" if one.explained else ""
    return alerts.Found(
        run_id=begins.run_id,
        at=begins.at,
        summary=f"{told} {way}",
        run=begins.run,
        cause=cause,
        state=alerts.CONFIRMED,
        # What begins at one commit, or else at one run, has one cause more often than not.
        family=begins.commit or begins.run,
        before=one.before,
        after=one.after,
        near=near(line, one),
        likely=likely(line, one),
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
