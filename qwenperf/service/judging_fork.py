"""Runs of a branch beside the default branch's where both parted: what does not depend on the clock, and times.

Counts, bytes, tokens and programs are held to the newest run that the fork point has, or the nearest before it. A time
is held to all such runs: one reading that none of them would give is a question, and enough readings of one commit, in
which a change is found as in any series, are an answer. Nothing that came to the default branch later has a part in it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.gate.history import judge_series
from qwenperf.gate.saved import compare_saved
from qwenperf.gate.verdict import failed, inconclusive, passed, skipped, worst
from qwenperf.schema.codec import from_json
from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.records import CaseRecord, Outcome, Verdict
from qwenperf.schema.regressions import Cause, RegressionStatus
from qwenperf.schema.series import Point, Series
from qwenperf.service.db import main_line, points, runs
from qwenperf.service.times import iso
from qwenperf.stats.history import LEAST
from qwenperf.stats.student import quantile
from qwenperf.units import quantity

GATE = "fork-point"
_ALPHA = 0.01
"""Chance that an unchanged run has any time in question, all of its times together."""

_BEFORE, _AGAIN = 50, 50
_ADVICE = "`qwenperf compare` measures both commits together."


@dataclass(frozen=True, kw_only=True)
class Forked:
    """A run and what it is compared with.

    Attributes:
      run: of a branch, with the default branch of its project.
      before: runs of the default branch up to the fork point that compare with it, the newest first.
      again: runs of its own commit, itself among them, oldest first.
      records: of the baseline and of the run.
      measured: the run's metrics.
      values: of all these runs, by series and run.
      cases: names of the run's cases.
    """

    run: Row[Any]
    before: Sequence[Row[Any]] = ()
    again: Sequence[Row[Any]] = ()
    records: tuple[Any, Any] = (None, None)
    measured: Sequence[Row[Any]] = ()
    values: Mapping[tuple[int, int], float] = field(default_factory=dict)
    cases: Sequence[str] = ()

    @property
    def baseline(self) -> Row[Any]:
        """The run of the fork point, or of the nearest commit before it."""
        exact = (one for one in self.before if one.commit == self.run.fork_point)
        return next(exact, self.before[0])

    @property
    def told(self) -> str:
        """What is compared with, in words."""
        base, fork = self.baseline, self.run.fork_point[:10]
        if base.commit == self.run.fork_point:
            return f"compared with run {base.name} of {fork}, where the branch left {self.run.default_branch}"
        where = f"of {base.commit[:10]}" if base.commit else "of a commit that it does not name"
        return (
            f"{fork}, where the branch left {self.run.default_branch}, has no run that compares; "
            f"compared with run {base.name} {where}, the nearest before it"
        )


def read_forked(connection: Connection, run: Row[Any]) -> Forked:
    """Read what ``run`` is compared with."""
    cases = [case.name for case in runs.cases_of(connection, run.id)]
    found = Forked(run=run, cases=cases)
    # Machines that nobody knows compare with nothing.
    before = main_line.before_fork(connection, run, run.default_branch, _BEFORE) if run.environment else ()
    if not before:
        return found
    found = replace(found, before=before)
    again = main_line.again(connection, run, _AGAIN)
    measured = points.of_run(connection, run, cases)
    numbers = [row.series_id for row in measured if _is_timed(row)]
    return replace(
        found,
        again=again,
        measured=measured,
        values=main_line.values(connection, numbers, before) | main_line.values(connection, numbers, again),
        records=(runs.record(connection, found.baseline.record_id), runs.record(connection, run.record_id)),
    )


def fork_verdicts(found: Forked) -> dict[str, Verdict]:
    """Return the verdict on each case of a run."""
    if not found.before:
        return dict.fromkeys(found.cases, _unknown(found.run))
    base, head = (from_json(record) for record in found.records)
    compared = {case.id: case.verdicts for case in compare_saved(base, head).cases}
    times, exact = _times(found), {case.id: _exact(case) for case in base.cases}
    shared = {case.id: len(_exact(case) & exact.get(case.id, set())) for case in head.cases}
    return {
        name: _united(compared[name], times.get(name, ()), shared[name], found.told)
        if name in compared
        else skipped(GATE, f"run {found.baseline.name} of {found.run.default_branch} has no such case", (found.told,))
        for name in found.cases
    }


def _unknown(run: Row[Any]) -> Verdict:
    fork, branch = run.fork_point[:10], run.default_branch
    if not run.environment:
        return skipped(GATE, "the run says nothing of its environment: it compares with none")
    return skipped(
        GATE,
        f"{branch} has no run of this suite in this environment up to {fork}, where the branch left it",
        advice=f"Push runs of {branch} from the same kind of machine, and fetch enough history that git knows {fork}.",
    )


def _exact(case: CaseRecord) -> set[str]:
    """Return the names of numbers without noise that a case has and that are compared."""
    return {name for name, one in case.metrics.items() if one.kind is Kind.DETERMINISTIC} - ROUNDING


def _united(certain: Sequence[Verdict], times: Sequence[Verdict], shared: int, told: str) -> Verdict:
    """Return one verdict of all that was compared, what is worst first; ``shared`` numbers may be equal and unsaid."""
    said = [one for one in (*certain, *times) if one.outcome is not Outcome.SKIPPED]
    outcome = worst([*(one.outcome for one in said), *([Outcome.PASS] if shared else [])])
    if outcome is None:
        return skipped(GATE, "nothing of the case compares with the baseline", (told,))
    lines = [one.summary for one in said if one.outcome is outcome and outcome is not Outcome.PASS]
    rest = [one.summary for one in said if one.outcome not in {outcome, Outcome.PASS}]
    if outcome is Outcome.PASS:
        return passed(GATE, f"as before the branch: {shared} numbers without noise and {len(times)} times", (told,))
    if outcome is Outcome.FAIL:
        return failed(GATE, lines[0], (told, *lines[1:], *rest), _ADVICE)
    if outcome is Outcome.INCONCLUSIVE:
        return inconclusive(GATE, lines[0], (told, *lines[1:], *rest), _ADVICE)
    return Verdict(gate=GATE, outcome=outcome, summary=lines[0], detail=(told, *lines[1:], *rest))


def _is_timed(row: Row[Any]) -> bool:
    return bool(row.kind == Kind.TIMED and row.direction != Direction.NONE)


def _times(found: Forked) -> dict[str, list[Verdict]]:
    """Return what times say, by case: those of which the default branch has too few readings say nothing."""
    timed = [row for row in found.measured if _is_timed(row)]
    known = [row for row in timed if len(_values(found, row, found.before)) >= LEAST]
    said: dict[str, list[Verdict]] = {}
    for row in known:
        said.setdefault(row.case, []).append(_time(found, row, _ALPHA / len(known)))
    return said


def _values(found: Forked, row: Row[Any], some: Sequence[Row[Any]]) -> list[float]:
    return [found.values[row.series_id, one.id] for one in some if (row.series_id, one.id) in found.values]


def _time(found: Forked, row: Row[Any], level: float) -> Verdict:
    before = _values(found, row, found.before)
    limit = _limit(before, level, is_lower=row.direction == Direction.LOWER)
    if (row.value <= limit) if row.direction == Direction.LOWER else (row.value >= limit):
        return passed(GATE, f"{row.metric} {quantity(row.value, row.unit)}")
    typical = f"{quantity(statistics.median(before), row.unit)} in {len(before)} runs before the branch"
    text = f"{row.metric} {quantity(row.value, row.unit)}, and {typical}"
    count = len(_values(found, row, found.again))
    told = _step(found, row) if count >= LEAST else None
    if told is None:
        need = f"{LEAST} runs of this commit tell" if count < LEAST else f"{count} runs of this commit show no step"
        return inconclusive(GATE, f"{text}; {need}")
    return failed(GATE, f"{text}; {told}")


def _limit(before: Sequence[float], level: float, *, is_lower: bool) -> float:
    """Return what one more reading like those ``before`` passes with a chance of ``level``, and none of them did."""
    is_log = min(before) > 0
    seen = [math.log(value) if is_log else value for value in before]
    reach = quantile(level, len(seen) - 1) * statistics.stdev(seen) * math.sqrt(1 + 1 / len(seen))
    limit = statistics.fmean(seen) + (reach if is_lower else -reach)
    limit = math.exp(min(limit, 700.0)) if is_log else limit
    return max(limit, *before) if is_lower else min(limit, *before)


def _step(found: Forked, row: Row[Any]) -> str | None:
    """Return the size of a step that begins with the branch, as the history of a series is judged; else ``None``."""
    own = {one.name for one in found.again}
    line = [*reversed(found.before), *found.again]
    series = Series(
        case=row.case,
        metric=row.metric,
        unit=row.unit,
        direction=Direction(row.direction),
        kind=Kind.TIMED,
        points=tuple(_points(found, row, line)),
    )
    try:
        judged = judge_series(series)
    except EnvironmentUnfitError:
        return None
    steps = (one for one in judged.regressions if one.run in own and one.cause is Cause.CODE)
    step = next((one for one in steps if one.status is RegressionStatus.NEW), None)
    if step is None:
        return None
    size = f"{step.size:+.1%}" if step.is_relative else f"{step.size:+g} {row.unit}"
    return f"{size}, confirmed by {len(found.again)} runs of this commit"


def _points(found: Forked, row: Row[Any], line: Sequence[Row[Any]]) -> Iterator[Point]:
    for one in line:
        if (row.series_id, one.id) in found.values:
            yield Point(
                value=found.values[row.series_id, one.id],
                run=one.name,
                measured_at=iso(one.measured_at),
                commit=one.commit,
                environment=one.environment,
            )
