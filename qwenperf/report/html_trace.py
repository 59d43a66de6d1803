"""A trace as a page shows it: where a token's time goes, operation by operation, and how its steps went.

Pure: a ``trace_summary`` in, texts and widths out. Widths are in hundredths of the longest bar of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf import units
from qwenperf.report.traces import roofline_share, step_lines
from qwenperf.schema.records import Roofline
from qwenperf.traces.diff import HOST_GAP
from qwenperf.traces.tokens import PerToken, per_token

TOP = 20
"""Operations that a page lists; ``qwenperf trace show --top`` lists more."""

_MOST_STEPS = 24
_NOTHING_S = 1e-9
_SLOW = 2.0
"""Times the median that a slow step takes, as in ``traces.summary``."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A share of a token's time: a category of operations, or the host's gap with what the host did in it."""

    name: str
    time: str
    share: str
    width: float
    inside: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation's share of a token."""

    name: str
    category: str
    time: str
    share: str
    width: float
    runs: str
    roofline: str
    place: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the trace; ``busy_width`` is the part of it in which operations ran."""

    number: int
    time: str
    busy: str
    gap: str
    width: float
    busy_width: float
    programs: str
    slow: bool


@dataclass(frozen=True, kw_only=True)
class TraceView:
    """One trace. ``rest`` is what operations that are not listed take."""

    told: tuple[str, ...]
    parts: tuple[Part, ...]
    operations: tuple[Operation, ...]
    rest: str
    steps: tuple[Step, ...]
    steps_left_out: int


def trace_view(summary: Any, *, roofline: Roofline | None = None, timed_s: float | None = None) -> TraceView:
    """Return what a page shows of a ``trace_summary``.

    Raises:
      RecordError: it is none, or shows nothing.
    """
    seen = per_token(summary)
    rest = sum(row.seconds for row in seen.rows[TOP:]) + max(0.0, seen.rest_s)
    steps = tuple(_steps(summary))
    return TraceView(
        told=tuple(str(line) for line in step_lines(summary, seen, timed_s)),
        parts=tuple(_parts(seen)),
        operations=tuple(_operations(summary, seen, roofline)),
        rest=f"{units.seconds(rest)}, {share(rest, seen.step_s)}" if rest > _NOTHING_S else "",
        steps=steps[:_MOST_STEPS],
        steps_left_out=max(0, len(steps) - _MOST_STEPS),
    )


def width(part: float, whole: float) -> float:
    """Return a bar's width in hundredths; whatever is told, it stays inside."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole > 0 else 0.0


def share(part: float, whole: float) -> str:
    """Write a part as per cent of the whole."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _parts(seen: PerToken) -> Iterator[Part]:
    named = {**seen.categories, HOST_GAP: seen.gap_s}
    longest = max(named.values(), default=0.0)
    for name, seconds in named.items():
        yield _part(name, seconds, seen.step_s, longest)
    for name, seconds in seen.waited[:3]:
        yield _part(f"the host in {name}", seconds, seen.step_s, longest, inside=True)


def _part(name: str, seconds: float, step_s: float, longest: float, *, inside: bool = False) -> Part:
    return Part(
        name=name,
        time=units.seconds(seconds),
        share=share(seconds, step_s),
        width=width(seconds, longest),
        inside=inside,
    )


def _operations(summary: Mapping[str, Any], seen: PerToken, roofline: Roofline | None) -> Iterator[Operation]:
    longest = max((row.seconds for row in seen.rows), default=0.0)
    listed = [raw for raw in summary["operations"] if isinstance(raw, Mapping)]
    for raw, row in list(zip(listed, seen.rows, strict=True))[:TOP]:
        yield Operation(
            name=row.name,
            category=row.category,
            time=units.seconds(row.seconds),
            share=share(row.seconds, seen.step_s),
            width=width(row.seconds, longest),
            runs=f"{row.count:.4g}",
            roofline=roofline_share(raw, row, roofline),
            place=row.told(),
        )


def _steps(summary: Mapping[str, Any]) -> Iterator[Step]:
    took = [float(one) for one in summary.get("step_s") or ()]
    busy, programs = (_beside(summary, name, len(took)) for name in ("step_busy_s", "dispatches"))
    longest, median = max(took, default=0.0), float(summary.get("step_median_s") or 0.0)
    for index, seconds in enumerate(took):
        worked = busy[index]
        yield Step(
            number=index + 1,
            time=units.seconds(seconds),
            busy="-" if worked is None else units.seconds(worked),
            gap="-" if worked is None else units.seconds(max(0.0, seconds - worked)),
            width=width(seconds, longest),
            busy_width=0.0 if worked is None else width(min(worked, seconds), longest),
            programs="-" if programs[index] is None else f"{programs[index]:g}",
            slow=bool(median) and seconds > _SLOW * median,
        )


def _beside(summary: Mapping[str, Any], name: str, count: int) -> list[float | None]:
    """Return a number for each step, as far as the summary has them: older ones have fewer keys."""
    found = summary.get(name)
    told = [float(one) for one in found] if isinstance(found, Sequence) and not isinstance(found, str) else []
    return [*told[:count], *[None] * (count - len(told))]
