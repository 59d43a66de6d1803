"""A series as the arrays that statistics read: what may be compared, where levels begin, which way is worse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.regressions import Form, Regression, RegressionStatus
from qwenperf.schema.series import Point, Series
from qwenperf.schema.times import utc

_LEAST_SHARE = -1 + 2**-53
"""A change to nothing, which no logarithm is."""

MOST = 500
"""Points that are looked at, the last ones: a step of years ago is nobody's question, and time grows with them."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """The points of a series that can be compared, in order; ``left_out`` counts the others.

    ``restarts`` are places of accepted steps, ``drifts`` accepted drifts from place to place, and ``since`` the place
    that drift is counted from.
    """

    series: Series
    points: tuple[Point, ...]
    left_out: int = 0
    restarts: tuple[int, ...] = ()
    drifts: tuple[tuple[int, int, Regression], ...] = ()
    since: int = 0

    @cached_property
    def is_log(self) -> bool:
        """Whether changes are shares: no value is 0 or below."""
        return all(point.value > 0 for point in self.points)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """What is looked at: logarithms where changes are shares."""
        raw = np.asarray([point.value for point in self.points], dtype=np.float64)
        return np.log(raw) if self.is_log else raw

    @cached_property
    def drifted(self) -> NDArray[np.float64]:
        """What accepted drifts add to ``values``: left in them, they would be taken for a staircase of steps."""
        places, added = np.arange(len(self.points)), np.zeros(len(self.points))
        for start, end, one in self.drifts:
            change = math.log1p(max(one.size, _LEAST_SHARE)) if one.is_relative else one.size
            if one.is_relative == self.is_log:
                added += change * np.clip((places - start) / (end - start), 0.0, 1.0)
        return added

    @property
    def groups(self) -> list[int]:
        """The environment of each point, numbered."""
        names = {name: number for number, name in enumerate(dict.fromkeys(one.environment for one in self.points))}
        return [names[point.environment] for point in self.points]

    @property
    def worse(self) -> int:
        """The sign of a change for the worse; 0 where neither is."""
        return {Direction.LOWER: 1, Direction.HIGHER: -1, Direction.NONE: 0}[self.series.direction]

    def sized(self, change: float) -> float:
        """Return a change of ``values`` as people read it: a share, or in the unit of the series."""
        return math.expm1(min(change, 700.0)) if self.is_log else change

    def level(self, value: float) -> float:
        """Return one of ``values`` in the unit of the series."""
        return math.exp(min(value, 700.0)) if self.is_log else value


def prepare(series: Series, known: Iterable[Regression] = (), released_at: str = "", least: int = 5) -> Input:
    """Return what of ``series`` can be looked at.

    A timed value is left out where its environment has fewer than ``least`` points: it can be compared with nothing.
    Accepted among ``known`` begin new windows, and so do points that were accepted when they were measured.
    """
    finite = [point for point in series.points[-MOST:] if math.isfinite(point.value)]
    if series.kind is Kind.TIMED:
        often = Counter(point.environment for point in finite)
        finite = [point for point in finite if often[point.environment] >= least]
    places = {point.run: place for place, point in enumerate(finite)}
    accepted = [one for one in known if one.status is RegressionStatus.ACCEPTED and _is_of(one, series)]
    steps = {places[one.run] for one in accepted if one.form is Form.STEP and one.run in places}
    steps |= {place for place, point in enumerate(finite) if point.accepted}
    ended = [one for one in accepted if one.form is Form.DRIFT and one.last_run in places]
    # Of one whose beginning is out of sight nobody knows how much of it is in sight.
    drifts = [(places[one.run], places[one.last_run], one) for one in ended if one.run in places]
    return Input(
        series=series,
        points=tuple(finite),
        left_out=len(series.points) - len(finite),
        restarts=tuple(sorted(place for place in steps if place > 0)),
        drifts=tuple(one for one in drifts if one[0] < one[1]),
        since=max([released(finite, released_at), *(places[one.last_run] for one in ended)]),
    )


def _is_of(one: Regression, series: Series) -> bool:
    return (one.case, one.metric) == (series.case, series.metric)


def released(points: Sequence[Point], released_at: str) -> int:
    """Return the place of the last point that is no newer than a release; 0 where none is, or none was named."""
    if not released_at:
        return 0
    moment = seconds(released_at)
    return max((place for place, point in enumerate(points) if ordered_by(point) <= moment), default=0)


def ordered_by(point: Point) -> float:
    """Return the time by which a point has its place in the history, in seconds since 1970."""
    told = point.extra.get("at")
    return float(told) if isinstance(told, int | float) else seconds(point.committed_at or point.measured_at)


def seconds(text: str) -> float:
    """Return an ISO 8601 time in seconds since 1970, without a zone that of UTC; not a number where it is no time."""
    try:
        return utc(text).timestamp()
    except ValueError:
        return math.nan
