"""A change of a series as a record: sizes as people read them, the runs and commits that it began between."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from qwenperf.gate.history_input import Input
from qwenperf.schema.regressions import Cause, Form, Regression, RegressionStatus
from qwenperf.stats.history import Drift, Shift, Step

_NEAR = 20
"""Points from the step within which a trace is looked for: further away it may be of another level."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A change at ``place``, which began from ``first`` to ``last``; ``change`` with its interval is of ``values``."""

    form: Form
    place: int
    first: int
    last: int
    change: float
    low: float
    high: float
    p_value: float
    before: float
    cause: Cause = Cause.CODE
    explained: tuple[str, ...] = ()


def of_step(step: Step, levels: tuple[float, ...]) -> Found:
    """Return a step as a change."""
    return Found(
        form=Form.STEP,
        place=step.place,
        first=step.first,
        last=step.last,
        change=step.change,
        low=step.low,
        high=step.high,
        p_value=step.p_value,
        before=levels[step.place - 1],
    )


def of_shift(shift: Shift, levels: tuple[float, ...]) -> Found:
    """Return the difference between two environments as a change that the second one explains."""
    return Found(
        form=Form.STEP,
        place=shift.place,
        first=shift.place,
        last=shift.place,
        change=shift.change,
        low=shift.low,
        high=shift.high,
        p_value=shift.p_value,
        before=levels[shift.place - 1],
        cause=Cause.ENVIRONMENT,
    )


def of_drift(drift: Drift, levels: tuple[float, ...]) -> Found:
    """Return a drift as a change that began at the point it is counted from."""
    return Found(
        form=Form.DRIFT,
        place=drift.since,
        first=drift.since + 1,
        last=len(levels) - 1,
        change=drift.change,
        low=drift.low,
        high=drift.high,
        p_value=drift.p_value,
        before=levels[drift.since],
    )


def record(read: Input, found: Found, found_at: str = "") -> Regression:
    """Return a change as a record, new or an improvement."""
    series, points = read.series, read.points
    run = points[found.place].run
    improved = found.change * read.worse < 0
    commits = dict.fromkeys(point.commit for point in points[found.first : found.last + 1] if point.commit)
    return Regression(
        id=short_id(series.case, series.metric, found.form, run),
        case=series.case,
        metric=series.metric,
        unit=series.unit,
        direction=series.direction,
        form=found.form,
        before=read.level(found.before),
        after=read.level(found.before + found.change),
        size=read.sized(found.change),
        interval=(read.sized(found.low), read.sized(found.high)),
        is_relative=read.is_log,
        p_value=min(max(found.p_value, 0.0), 1.0),
        status=RegressionStatus.IMPROVED if improved else RegressionStatus.NEW,
        cause=found.cause,
        explained=found.explained,
        run=run,
        first_run=points[found.first].run,
        end_run=points[found.last].run,
        run_before=points[max(found.first - 1, 0)].run,
        last_run=points[-1].run,
        measured_at=points[found.place].measured_at,
        began_at=points[found.place].committed_at or points[found.place].measured_at,
        commit=points[found.place].commit,
        good=points[max(found.first - 1, 0)].commit,
        bad=points[found.last].commit,
        commits=tuple(commits),
        traced_runs=traced_runs(read, found),
        found_at=found_at,
    )


def traced_runs(read: Input, found: Found) -> tuple[str, ...]:
    """Return the nearest traced runs that surely are of the level before and of the new one; none without both."""
    points = read.points
    before = range(found.first - 1, max(found.first - 1 - _NEAR, -1), -1)
    after = range(found.last, min(found.last + _NEAR, len(points)))
    sides = [next((points[place].run for place in side if points[place].trace), "") for side in (before, after)]
    return tuple(sides) if all(sides) else ()


def short_id(case: str, metric: str, form: Form, run: str) -> str:
    """Return eight hexadecimal digits that name a change: people type them."""
    return hashlib.sha256(f"{case}\n{metric}\n{form}\n{run}".encode()).hexdigest()[:8]
