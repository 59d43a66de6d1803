"""Which runs a change of a series may be known by, and at which runs one would be seen. Pure.

Where a step in noise begins is an estimate, which moves as points come; what is out of sight is found no more, and is
not over for that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

from qwenperf.gate.history import Judged
from qwenperf.gate.history_input import MOST
from qwenperf.schema.metrics import Direction
from qwenperf.schema.regressions import Cause, Form, Regression
from qwenperf.service.db.same_change import Sight
from qwenperf.stats.history import LEAST

_LEAST_SHARE = -1 + 2**-53
"""A change to nothing, which no logarithm is."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points of a series, oldest first, and what changed in them: for the better, taken back and accepted, too."""

    points: Sequence[Row[Any]]
    judged: Judged
    places: Mapping[str, int]
    steps: Sequence[int] = field(default=())


def line_of(points: Sequence[Row[Any]], judged: Judged) -> Line:
    """Return points with what was found in them."""
    places = {point.run: place for place, point in enumerate(points)}
    changes = (*judged.regressions, *judged.improvements)
    steps = sorted(places[one.run] for one in changes if one.form is Form.STEP)
    return Line(points=points, judged=judged, places=places, steps=steps)


def near(line: Line, one: Regression) -> tuple[int, ...]:
    """Return the numbers of runs by which a change may be known, the nearest first.

    Of a step they are those that may be its first, and those too near to be of a change of their own, none of them
    nearer to another; of a drift, for which a step may have been taken, all that are of no step.
    """
    place = line.places[one.run]
    if one.form is Form.DRIFT:
        return tuple(row.run_id for at, row in enumerate(line.points) if _away(line, at) >= LEAST)
    interval = _interval(line, one)
    first, last = min(interval.start, place - LEAST + 1), max(interval.stop, place + LEAST)
    inside = range(max(first, 0), min(last, len(line.points)))
    mine = (at for at in inside if _away(line, at) == abs(at - place))
    return tuple(line.points[at].run_id for at in sorted(mine, key=lambda at: abs(at - place)))


def _away(line: Line, at: int) -> int:
    """Return how many points the nearest step is away from a place."""
    return min((abs(step - at) for step in line.steps), default=len(line.points))


def likely(line: Line, one: Regression) -> frozenset[int]:
    """Return the numbers of the runs that may be the first of a step, with a chance of 95%; of a drift none."""
    if one.form is Form.DRIFT:
        return frozenset()
    return frozenset(line.points[at].run_id for at in _interval(line, one))


def _interval(line: Line, one: Regression) -> range:
    first, last = (line.places[name] for name in (one.first_run or one.run, one.end_run or one.run))
    return range(first, last + 1)


def in_sight(line: Line, direction: Direction) -> Sight | None:
    """Return what of a series was looked at; ``None``: all that there is.

    Of a longer history that is the last part. At its beginning, and at that of a machine in it, nobody can tell a
    change.
    """
    if len(line.points) <= MOST:
        return None
    seen, before = set[int](), Counter[str]()
    for place in (line.places[run] for run in line.judged.runs):
        point = line.points[place]
        if before[point.environment] >= LEAST:
            seen.add(point.run_id)
        before[point.environment] += 1
    taken = tuple(_taken(line, 1 if direction is Direction.LOWER else -1))
    return Sight(runs=frozenset(seen), taken=taken, is_relative=line.judged.is_relative)


def _taken(line: Line, worse: int) -> Iterator[tuple[float, float]]:
    """Yield what the steps took back up to each of them, and half of its interval, as history is judged."""
    changes = (*line.judged.regressions, *line.judged.improvements)
    steps = [one for one in changes if one.form is Form.STEP and one.cause is Cause.CODE]
    taken = 0.0
    for one in sorted(steps, key=lambda one: line.places[one.run]):
        change, low, high = (_change(one, size) for size in (one.size, *(one.interval or (one.size, one.size))))
        taken -= change * worse
        yield taken, (high - low) / 2


def _change(one: Regression, size: float) -> float:
    return math.log1p(max(size, _LEAST_SHARE)) if one.is_relative else size
