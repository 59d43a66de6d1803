"""What became worse in the history of one metric of one case: statistics told of directions, environments, machines.

A series in, records out: nothing here reads a store, a clock or git.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from qwenperf.gate.history_cause import environment_cause, machine_cause
from qwenperf.gate.history_certain import certain_changes
from qwenperf.gate.history_input import MOST, Input, prepare
from qwenperf.gate.history_record import Found, of_drift, of_shift, of_step, record
from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.regressions import Cause, Form, Regression, RegressionStatus
from qwenperf.schema.series import Series
from qwenperf.stats.history import LEAST, Changes, find_changes
from qwenperf.stats.history_noise import Noise

_SHIFT_ALPHA = 0.01
_ROUNDED = 1e-9
"""Share of a change that sums of logarithms may be off by: more than they are, and less than anybody looks for."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the history of one metric says.

    Attributes:
      series: whose history.
      regressions: what became worse, in order; what an environment or the machine explains among them.
      improvements: what became better.
      noise: deviation and correlation of single points, as shares where changes are; ``None`` without noise or points.
      crept: change since the release as a share or in the unit, with its interval, where it is for the worse and no
        single step; else ``None``.
      is_relative: whether ``crept`` is a share.
      points: how many could be compared.
      runs: those of them, in order.
      settled: place among ``runs`` before which no step can be found, because what was before it is out of sight.
      left_out: how many could not: not finite, or of an environment that is seldom seen.
    """

    series: Series
    regressions: tuple[Regression, ...] = ()
    improvements: tuple[Regression, ...] = ()
    noise: Noise | None = None
    crept: tuple[float, float, float] | None = None
    is_relative: bool = True
    points: int = 0
    runs: tuple[str, ...] = ()
    settled: int = 0
    left_out: int = 0


def judge_series(
    series: Series,
    *,
    canaries: Sequence[Series] = (),
    known: Iterable[Regression] = (),
    released_at: str = "",
    found_at: str = "",
    least: int = LEAST,
) -> Judged:
    """Return what became worse, and better, in ``series``; nothing is of a fact, nor of an error by rounding.

    Args:
      series: at least 10 points of a timed metric; in fewer nothing is found.
      canaries: series of the same runs that no change of the code touches.
      known: earlier records; accepted ones begin new windows, and drift is counted anew from an accepted drift's end.
      released_at: when the last release was, ISO 8601: drift is counted from the last point before it.
      found_at: what new records say of when they were found.
      least: points that a level needs.

    Raises:
      EnvironmentUnfitError: asv, whose step detection is used, is not installed.
    """
    read = prepare(series, known, released_at, least)
    if series.kind is Kind.TIMED:
        changes = _changes(read, least)
        found = list(_timed(read, changes, canaries))
    else:
        changes = Changes()
        found = certain_changes(read)
    made = [record(read, one, found_at) for one in found]
    better = [one for one in made if one.status is RegressionStatus.IMPROVED]
    neutral = series.direction is Direction.NONE or series.metric in ROUNDING
    return Judged(
        series=series,
        regressions=() if neutral else tuple(_fixed(found, made, read)),
        improvements=() if neutral else tuple(better),
        noise=changes.noise if changes.noise and changes.noise.deviation else None,
        crept=None if neutral else _crept(read, changes),
        is_relative=read.is_log,
        points=len(read.points),
        runs=tuple(point.run for point in read.points),
        settled=least if len(series.points) > MOST else 0,
        left_out=read.left_out,
    )


def changes_of(series: Series) -> tuple[int, ...]:
    """Return the index of the first point of each new level among ``series.points``, to be drawn.

    Raises:
      EnvironmentUnfitError: asv is not installed.
    """
    judged = judge_series(series)
    runs = {one.run for one in (*judged.regressions, *judged.improvements) if one.form is Form.STEP}
    return tuple(index for index, point in enumerate(series.points) if point.run in runs)


def _changes(read: Input, least: int) -> Changes:
    """Return what changed besides accepted drifts; levels are those of the history as it is."""
    level = read.values - read.drifted
    changes = find_changes(level, groups=read.groups, restarts=read.restarts, since=read.since, least=least)
    levels = zip(changes.levels, read.drifted.tolist(), strict=True)
    return replace(changes, levels=tuple(level + drifted for level, drifted in levels))


def _timed(read: Input, changes: Changes, canaries: Sequence[Series]) -> Iterator[Found]:
    """Yield shifts between environments, steps and drift, in the order of their places."""
    found = [
        of_shift(one, changes.levels) for one in changes.shifts if one.p_value <= _SHIFT_ALPHA / len(changes.shifts)
    ]
    places = [0, *(step.place for step in changes.steps), len(read.points)]
    for index, step in enumerate(changes.steps):
        edges = (places[index], places[index + 2])
        cause, told = machine_cause(read, step.place, edges, step.change, canaries)
        found.append(replace(of_step(step, changes.levels), cause=cause, explained=told))
    if changes.drift is not None:
        found.append(of_drift(changes.drift, changes.levels))
    for one in sorted(found, key=lambda one: one.place):
        told = environment_cause(read, one.place)[1] if one.cause is Cause.ENVIRONMENT else one.explained
        yield replace(one, explained=told)


def _fixed(found: Sequence[Found], made: Sequence[Regression], read: Input) -> Iterator[Regression]:
    """Yield the regressions, those marked that later steps took back, but for what intervals leave open, half at most.

    Only what has the same cause does: a faster machine or another environment mends no code. Sums are of ``values``:
    a share is rounded, and what is certain leaves nothing open that rounding could hide in.
    """
    steps = [one for one in zip(found, made, strict=True) if one[0].form is Form.STEP]
    for one, told in zip(found, made, strict=True):
        if told.status is RegressionStatus.IMPROVED:
            continue
        left, taken = one.change, None
        for step, said in steps if one.form is Form.STEP else ():
            if step.cause is not one.cause or step.place <= one.place:
                continue
            left += step.change
            open_ = min(_half(one) + _half(step), abs(one.change) / 2)
            if left * read.worse <= open_ + _ROUNDED * abs(one.change):
                taken = said
                break
        yield told if taken is None else _taken_back(told, taken)


def _taken_back(one: Regression, by: Regression) -> Regression:
    return replace(one, status=RegressionStatus.FIXED, fixed_run=by.run, fixed_commit=by.commit)


def _half(one: Found) -> float:
    return (one.high - one.low) / 2


def _crept(read: Input, changes: Changes) -> tuple[float, float, float] | None:
    """Return the change since the release where it is for the worse, and a drift or the sum of several steps."""
    steps = sum(step.change * read.worse > 0 for step in changes.steps if step.place > read.since)
    change, low, high = changes.total
    is_worse = min(low * read.worse, high * read.worse) > 0
    if not is_worse or (changes.drift is None and steps < 2):
        return None
    return read.sized(change), read.sized(low), read.sized(high)
