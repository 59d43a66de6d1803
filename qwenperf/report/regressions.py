"""Regressions of a history for people: what became how much worse, since which commit, and what is known of why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text

from qwenperf import units
from qwenperf.gate.history import Judged
from qwenperf.report.series_scale import printable
from qwenperf.schema.metrics import Direction
from qwenperf.schema.regressions import Cause, Form, Regression, RegressionStatus

_STYLES = {
    RegressionStatus.NEW: "bold red",
    RegressionStatus.ACCEPTED: "dim",
    RegressionStatus.FIXED: "green",
    RegressionStatus.IMPROVED: "green",
}
_SHORT = 12


def regression_lines(one: Regression) -> Iterator[Text]:
    """Yield what is told of one regression; the first line begins with its status and its name."""
    explained = one.status is RegressionStatus.NEW and one.cause is not Cause.CODE
    status = f"explained by the {one.cause}" if explained else str(one.status)
    first = Text()
    first.append(status, style="yellow" if explained else _STYLES[one.status])
    first.append(printable(f" {one.id}: {one.metric} of {one.case} {change(one)}"))
    yield first
    yield from (Text(printable(f"  {line}")) for line in _detail(one))


def change(one: Regression) -> str:
    """Return ``1.20 ms -> 1.25 ms, +4.1% (+3.0% to +5.2%)``."""
    sides = " -> ".join(units.quantity(value, one.unit) for value in (one.before, one.after))
    low, high = one.interval or (one.size, one.size)
    between = "" if low == high else f" ({_size(low, one)} to {_size(high, one)})"
    drifted = " in small steps" if one.form is Form.DRIFT else ""
    return f"{sides}{drifted}, {_size(one.size, one)}{between}"


def _size(size: float, one: Regression) -> str:
    if one.is_relative:
        return f"{size:+.1%}"
    return f"{'-' if size < 0 else '+'}{units.quantity(abs(size), one.unit)}"


def _detail(one: Regression) -> Iterator[str]:
    if one.status is RegressionStatus.ACCEPTED:
        yield f"accepted: {one.reason}"
        return
    when = f"run {one.run} ({one.measured_at})"
    yield f"{'counted from' if one.form is Form.DRIFT else 'first in'} {when}{_p(one)}"
    if one.status is RegressionStatus.FIXED:
        yield f"taken back in run {one.fixed_run}{f', commit {_short(one.fixed_commit)}' if one.fixed_commit else ''}"
        return
    yield from one.explained
    if one.commits and one.good and one.bad:
        many = "" if len(one.commits) == 1 else f", {len(one.commits)} measured commits"
        likeliest = f", most likely {_short(one.commit)}" if one.form is Form.STEP and len(one.commits) > 1 else ""
        yield f"after {_short(one.good)}, up to {_short(one.bad)}{many}{likeliest}"
        if one.cause is Cause.CODE and one.form is Form.STEP:
            words = (one.case, one.metric, "--good", _short(one.good), "--bad", _short(one.bad))
            yield f"qwenperf bisect {shlex.join(words)}"
    yield from one.suspects


def _p(one: Regression) -> str:
    return "" if one.p_value == 0 else f", noise does that once in {_times(1 / one.p_value)} histories"


def _times(count: float) -> str:
    return f"{count:,.0f}" if count < 1e6 else "a million or more"


def _short(sha: str) -> str:
    return sha[:_SHORT]


def summary_lines(judged: Sequence[Judged], regressions: Sequence[Regression], store: str) -> Iterator[Text]:
    """Yield what was looked at, and what could not be."""
    new = sum(one.status is RegressionStatus.NEW and one.cause is Cause.CODE for one in regressions)
    plural = "" if new == 1 else "s"
    yield Text(printable(f"{len(judged)} histories in {store}: {new} new regression{plural}"), no_wrap=True)
    few = [each for each in judged if not each.points]
    short = sum(len({point.environment for point in each.series.points}) < 2 for each in few)
    if short:
        yield Text(_cannot(short, "too few points yet"))
    if len(few) > short:
        yield Text(_cannot(len(few) - short, "environments that occur too seldom"))


def _cannot(count: int, why: str) -> str:
    return f"{count} of them {'has' if count == 1 else 'have'} no value that can be compared: {why}."


def crept_line(each: Judged, since: str) -> Text | None:
    """Say how far a metric has crept since the release; ``None`` where it has not."""
    if each.crept is None:
        return None
    series = each.series
    size, *ends = (abs(part) for part in each.crept)
    share = f"{size:.1%} ({min(ends):.1%} to {max(ends):.1%})"
    told = share if each.is_relative else units.quantity(size, series.unit)
    worse = "slower or larger" if series.direction is Direction.LOWER else "lower"
    line = f"crept: {series.metric} of {series.case} is {worse} by {told} since {since}, not in one step"
    return Text(printable(line))
