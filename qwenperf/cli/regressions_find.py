"""Asks a store for its histories and judges all of them: what ``qwenperf regressions`` lists, without its words."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from qwenperf.cli.streams import say
from qwenperf.errors import NothingMeasuredError, QwenperfError, nearest_advice
from qwenperf.gate.differences import environment_differences
from qwenperf.gate.history import Judged, judge_series
from qwenperf.gate.history_input import seconds
from qwenperf.gate.history_status import confirmed
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import RunRecord
from qwenperf.schema.regressions import NOTE, Cause, Regression, RegressionsRecord, RegressionStatus, loads
from qwenperf.stats.history_stale import Stale, stale
from qwenperf.store.answers import OTHER_UNITS, OTHER_VERSIONS
from qwenperf.store.rows import CANARIES
from qwenperf.traces.diff import top_lines

if TYPE_CHECKING:
    from qwenperf.store.base import Window
    from qwenperf.store.directory import DirectoryStore

REPEATED = frozenset((
    "decode_tokens_per_s", "prefill_tokens_per_s", "request_tokens_per_s", "cold_tokens_per_s", "calls_per_s",
    "call_tokens_per_s", "mbu", "mfu", "dispatches_per_token", "flops_per_step", "flops_per_request",
))  # fmt: skip
"""Metrics that say the same as another one, or are formulas of the case: each is looked at where it is named only."""

REPEATED_BESIDE = {
    **dict.fromkeys(("mean_s", "max_s", "q1_s", "q3_s", "ld15iqr_s", "hd15iqr_s", "ops_per_s"), "median_s"),
    **dict.fromkeys(
        ("request_throughput", "total_token_throughput", "total_throughput", "input_throughput"), "output_throughput"
    ),
}
"""The same of other tools' metrics, by the one that each repeats: where a case has both, one change is told once."""

_MOST_TOLD = 3


@dataclass(frozen=True, kw_only=True)
class StaleSeries:
    """A case whose metrics no longer come."""

    case: str
    metrics: tuple[str, ...]
    last: str
    found: Stale


def read_known(store: DirectoryStore) -> RegressionsRecord:
    """Return the store's record of regressions, by the cases' present names; an empty one where there is none.

    Raises:
      RecordError: it is there and cannot be read.
    """
    data = store.read_note(NOTE)
    if data is None:
        return RegressionsRecord()
    record = loads(data.decode("utf-8", "replace"), f"{store.url}/{NOTE}")
    # What was accepted of a case stays accepted when that is renamed.
    known = (replace(one, case=store.aliases.name(one.case)) for one in record.regressions)
    retired = (replace(one, case=store.aliases.name(one.case)) for one in record.retired)
    return replace(record, regressions=tuple(known), retired=tuple(retired))


@contextmanager
def alone(store: DirectoryStore) -> Iterator[None]:
    """Let nobody else change the record between reading and writing it; places that are no folder have no lock."""
    try:
        descriptor = os.open(store.url, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # some shares lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def chosen(store: DirectoryStore, case: str | None, metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Return the histories to look at: cases that match, and the metrics named or all that say something of their own.

    Raises:
      NothingMeasuredError: there is none.
    """
    found = [
        (name, metric)
        for name, known in store.cases().items()
        for metric in known
        if (case is None or case == name or fnmatchcase(name, case))
        and (metric in metrics if metrics else not (metric in REPEATED or REPEATED_BESIDE.get(metric) in known))
    ]
    if not found:
        asked = f" of case {case!r}" if case else ""
        named = f" called {' or '.join(metrics)}" if metrics else ""
        there = sorted({metric for known in store.cases().values() for metric in known})
        # A metric that is there is none of that case: then its list helps nobody.
        unknown = [name for name in metrics if name not in there]
        advice = nearest_advice(unknown[0], there) if unknown else "`qwenperf history` lists the cases."
        raise NothingMeasuredError(f"{store.url} has no metric{named}{asked}.", advice=advice)
    return found


def check_branch(store: DirectoryStore, branch: str | None) -> None:
    """Refuse a branch of which there is no run: nothing would be found there, and a gate be green for nothing.

    Raises:
      NothingMeasuredError: there is none; offers the nearest.
    """
    known = {run.branch for run in store.runs()} if branch is not None else set()
    if branch is not None and branch not in known:
        there = sorted(filter(None, known))
        advice = nearest_advice(branch, there) if there else "No run says its branch: leave --branch out."
        raise NothingMeasuredError(f"{store.url} has no run of the branch {branch!r}.", advice=advice)


def judge_all(
    store: DirectoryStore,
    names: Sequence[tuple[str, str]],
    window: Window,
    *,
    known: Sequence[Regression],
    released_at: str,
    now: str,
    least: int,
) -> tuple[Judged, ...]:
    """Judge the histories, and drop what so many of them have by chance.

    Where a metric's unit has changed, its history begins with the unit of today: what was before is another series.
    """
    judged = []
    for case, metric in names:
        series = store.series(case, metric, window, latest_unit=True)
        if series.direction is Direction.NONE:
            continue
        if other := series.extra.get(OTHER_UNITS):
            told = f"{metric} of {case} is in {series.unit!r} now: {other} points in others are left out"
            say(f"qwenperf: warning: {told}")
        if older := series.extra.get(OTHER_VERSIONS):
            say(f"qwenperf: note: {metric} of {case}: {older} points of other versions of the benchmark are left out")
        canaries = [store.series(case, name, window) for name in CANARIES]
        judged.append(
            judge_series(series, canaries=canaries, known=known, released_at=released_at, found_at=now, least=least)
        )
    return confirmed(judged)


def shown(found: Sequence[Regression], judged: Sequence[Judged]) -> list[Regression]:
    """Return what of a store's regressions belongs to these histories: accepted ones, and those of runs that they have.

    What another branch has, another look keeps.
    """
    runs = {(each.series.case, each.series.metric): {point.run for point in each.series.points} for each in judged}
    return [
        one
        for one in found
        if (one.case, one.metric) in runs
        and (one.status is RegressionStatus.ACCEPTED or one.run in runs[one.case, one.metric])
    ]


def stale_series(judged: Sequence[Judged], now: datetime) -> Iterator[StaleSeries]:
    """Yield the cases whose metrics no longer come; one that only lost a metric is named with it."""
    by_case: dict[str, list[tuple[str, str, Stale]]] = {}
    for each in judged:
        times = [seconds(point.measured_at) for point in each.series.points]
        times = [time for time in times if time == time]  # noqa: PLR0124  (a text that is no time is not a number)
        found = stale(times, now.timestamp()) if times else None
        if found is not None:
            last = max(each.series.points, key=lambda point: seconds(point.measured_at)).measured_at
            by_case.setdefault(each.series.case, []).append((each.series.metric, last, found))
    for case, rows in by_case.items():
        _, last, found = max(rows, key=lambda row: seconds(row[1]))
        yield StaleSeries(case=case, metrics=tuple(row[0] for row in rows), last=last, found=found)


def with_evidence(store: DirectoryStore, one: Regression) -> Regression:
    """Return a regression with what the runs on either side tell: the environment's differences, operations by time.

    A run that cannot be read tells nothing, and costs nothing else.
    """
    if one.status is not RegressionStatus.NEW:
        return one
    if one.cause is Cause.ENVIRONMENT:
        sides = _runs(store, (one.run_before, one.run))
        return replace(one, explained=environment_lines(*sides) or one.explained) if sides else one
    sides = _runs(store, one.traced_runs)
    return replace(one, suspects=_slower(store, one.case, *sides)) if sides else one


def environment_lines(base: RunRecord, head: RunRecord) -> tuple[str, ...]:
    """Say in which fields two runs' environments differ."""
    return tuple(environment_differences(base.environment, head.environment).values())[:_MOST_TOLD]


def _runs(store: DirectoryStore, names: Sequence[str]) -> tuple[RunRecord, RunRecord] | None:
    try:
        base, head = (store.get(name) for name in names)
    except (QwenperfError, OSError, ValueError):
        return None
    return base, head


def _slower(store: DirectoryStore, case: str, base: RunRecord, head: RunRecord) -> tuple[str, ...]:
    """Say what takes more time in ``head``'s trace; either run may know the case by an older name."""
    old, new = (
        next((one.evidence.trace_summary for one in run.cases if store.aliases.name(one.id) == case), None)
        for run in (base, head)
    )
    return top_lines(old, new, _MOST_TOLD) if old and new else ()
