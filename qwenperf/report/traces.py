"""Traces as people read them in a terminal: where a token's time goes, and what changed between two traces.

Pure: summaries in, lines out. Numbers come first and names last, because names are long: a line is never folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from qwenperf import units
from qwenperf.report.series_scale import printable
from qwenperf.schema.records import Roofline
from qwenperf.traces import graphs
from qwenperf.traces.diff import HOST_GAP, REQUESTS, STEPS, Change, Kind, TraceDiff, of, signed
from qwenperf.traces.tokens import PerToken, Row, per_token

_BEYOND = 1.05
"""Shares of the roofline above this say that the operation did not go to memory."""

_PROGRAMS = 4
"""Programs that a line names; an engine that runs operation by operation has dozens."""

_SLOW_SHARE = 0.1
"""Slow steps that add less than this share of a token are not worth a line."""


def trace_report(
    case: str,
    summary: Mapping[str, Any],
    *,
    roofline: Roofline | None,
    timed_s: float | None,
    top: int,
    timed: str = STEPS,
) -> Iterator[Text]:
    """Yield what one trace shows: its steps, what the device and the host did, the longest operations.

    Raises:
      RecordError: the summary is none, or shows nothing.
    """
    seen = per_token(summary)
    yield Text(printable(case), style="bold")
    yield from step_lines(summary, seen, timed_s, timed)
    yield _line(f"{'time/token':>10} {'share':>5}  what", "bold")
    for name, seconds in {**seen.categories, HOST_GAP: seen.gap_s}.items():
        yield _line(f"{units.seconds(seconds):>10} {_share(seconds, seen.step_s):>5}  {name}")
    for name, seconds in seen.waited[:3]:
        yield _line(f"{units.seconds(seconds):>10} {_share(seconds, seen.step_s):>5}    the host in {name}")
    yield _line(f"{'time/token':>10} {'share':>5} {'runs':>6} {'roofline':>15}  operation", "bold")
    listed = [row for row in summary["operations"] if isinstance(row, Mapping)]
    for row, raw in list(zip(seen.rows, listed, strict=True))[:top]:
        numbers = f"{units.seconds(row.seconds):>10} {_share(row.seconds, seen.step_s):>5} {row.count:>6.4g}"
        numbers += f" {roofline_share(raw, row, roofline):>15}"
        yield _line(f"{numbers}  {row.name}: {row.category} {row.told()}".rstrip())
    rest = sum(row.seconds for row in seen.rows[top:]) + max(0.0, seen.rest_s)
    if rest > 0:
        yield _line(f"{units.seconds(rest):>10} {_share(rest, seen.step_s):>5}  in all others")
    yield Text()


def step_lines(summary: Mapping[str, Any], seen: PerToken, timed_s: float | None, timed: str = STEPS) -> Iterator[Text]:
    """Yield what is known of a trace's steps as a whole: how many, how long, how busy, what is left out."""
    steps, typical = summary.get("steps", 0), summary.get("typical_steps")
    busy = _share(seen.step_s - seen.gap_s, seen.step_s)
    what = "whole requests" if of(summary) == REQUESTS else "steps"
    told = f"{steps} {what}, {units.seconds(seen.step_s)} a token; the device is busy {busy} of it"
    if not steps:
        told = f"no annotated step: all times are of the whole trace, {units.seconds(seen.step_s)}; busy {busy} of it"
    dispatches = summary.get("dispatches")
    if isinstance(dispatches, Sequence) and dispatches:
        started = f"{sum(dispatches) / len(dispatches):.3g}"
        told += f"; {started} program{'' if started == '1' else 's'} a step"
    yield _line(told)
    programs = _by_program(seen)
    if len(programs) > 1:
        longest = ", ".join(f"{units.seconds(one)} in {name}" for name, one in programs[:_PROGRAMS])
        more = f", {len(programs) - _PROGRAMS} more" if len(programs) > _PROGRAMS else ""
        yield _line(f"by program: {longest}{more}")
    if isinstance(typical, int) and typical < steps:
        slow = f"{steps - typical} of them took more than twice the median and are left out below"
        yield _line(f"{slow}; they add {units.seconds(max(0.0, seen.slow_s))} to the mean")
    hidden = summary.get("graphs")
    if isinstance(hidden, Mapping):
        share = _share(hidden.get("share") or 0.0, 1.0)
        told = f"{share} of the device's time is inside CUDA graphs, whose operations are not told apart"
        yield _line(f"{told}: {graphs.FLAG} in XLA_FLAGS shows them", "yellow")
    if timed_s:
        yield _line(f"without the profiler a token took {units.seconds(timed_s)}: {_timed(summary, timed)}")


def _by_program(seen: PerToken) -> list[tuple[str, float]]:
    """Return the seconds of a token that the listed operations of each program take, the longest first."""
    sums: dict[str, float] = {}
    for row in seen.rows:
        if row.program:
            sums[row.program] = sums.get(row.program, 0.0) + row.seconds
    return sorted(sums.items(), key=lambda one: -one[1])


def _timed(summary: Mapping[str, Any], timed: str) -> str:
    """Say what was timed: a reader who turns tokens/s into time per token finds another number."""
    if timed == REQUESTS:
        return "whole requests, prefill included"
    if summary.get("tokens_per_step", 1) == 1:
        return "a streamed step (itl_p50_s); tokens/s in the run's table are of whole requests on the device"
    return "whole requests on the device (tpot_s), as tokens/s in the run's table"


def roofline_share(raw: Mapping[str, Any], row: Row, roofline: Roofline | None) -> str:
    """Return the share of its time that an operation had to take, and what bounds it: ``63% memory``."""
    runs, flops, moved = (raw.get(name) or 0.0 for name in ("count", "flops", "bytes"))
    if roofline is None or not runs or not row.seconds or not row.count or not (flops or moved):
        return "-"
    by_memory, by_arithmetic = moved / roofline.bytes_per_s, flops / roofline.flops_per_s
    share = max(by_memory, by_arithmetic) / runs * row.count / row.seconds
    bound = "memory" if by_memory >= by_arithmetic else "arithmetic"
    return f">100% {bound}" if share > _BEYOND else f"{100 * share:.0f}% {bound}"


def diff_report(base: str, head: str, found: TraceDiff, *, top: int) -> Iterator[Text]:
    """Yield what changed between two traces, what explains most first."""
    yield Text(printable(base if base == head else f"{base} -> {head}"), style="bold")
    sides = f"{units.seconds(found.base_s)} -> {units.seconds(found.head_s)}"
    yield _line(f"a token in the traces: {sides} ({signed(found.difference_s)})")
    yield from _reconciliation(found)
    if max(found.slow_base_s, found.slow_head_s) > _SLOW_SHARE * found.head_s:
        slow = f"{units.seconds(found.slow_base_s)} -> {units.seconds(found.slow_head_s)}"
        yield _line(f"slow steps, left out here, add to the mean: {slow}")
    yield _line(f"{'base':>10} {'head':>10} {'difference':>10}  what", "bold")
    for name, old, new in found.categories:
        yield _line(f"{_sides(old, new)}  {name}")
    if len(found.programs) > 1:
        yield _line(f"{'base':>10} {'head':>10} {'difference':>10}  program", "bold")
        for name, old, new in found.programs:
            yield _line(f"{_sides(old, new)}  {name}")
    yield _line(f"{'base':>10} {'head':>10} {'difference':>10}  operation", "bold")
    for one in found.changes[:top]:
        yield _line(_change(one))
    rest = found.changes[top:]
    if rest:
        yield _line(f"{_sides(sum(one.base_s for one in rest), sum(one.head_s for one in rest))}  {len(rest)} more")
    yield Text()


def _change(one: Change) -> str:
    kind = "" if one.kind is Kind.SAME else f"{one.kind}: "
    return f"{_sides(one.base_s, one.head_s)}  {kind}{one.name}{f': {one.detail}' if one.detail else ''}"


def _sides(old: float, new: float) -> str:
    return f"{units.seconds(old):>10} {units.seconds(new):>10} {signed(new - old):>10}"


def _reconciliation(found: TraceDiff) -> Iterator[Text]:
    if found.timed_base_s is None or found.timed_head_s is None or found.unexplained_s is None:
        return
    timed = f"{units.seconds(found.timed_base_s)} -> {units.seconds(found.timed_head_s)}"
    change = found.timed_head_s - found.timed_base_s
    yield _line(f"a token as timed, without the profiler: {timed} ({signed(change)})")
    if not found.reconciles():
        share = f", {_share(abs(found.unexplained_s), abs(change))} of it" if change else ""
        left = f"the traces leave {signed(found.unexplained_s)} of that unexplained{share}"
        where = ": requests were timed, and the traces show steady steps, without prefill" if found.outside else ""
        yield _line(f"{left}{where}", "yellow")


def run_lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield one line a run that has traces."""
    yield _line(f"{'traces':>6} {'size':>8}  run", "bold")
    for run in runs:
        killed = run["killed"]
        notes = (
            run["suite"],
            run["problem"],
            "under way" if run["under_way"] else "",
            f"{killed} killed capture{'s' if killed > 1 else ''}" if killed else "",
        )
        told = ", ".join(filter(None, notes))
        yield _line(f"{len(run['sessions']):>6} {units.byte_count(run['bytes']):>8}  {run['path']}  {told}".rstrip())


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, no_wrap=True)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"
