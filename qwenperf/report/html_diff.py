"""The traces of a comparison's two sides, as a page shows them: what took longer in head, what less. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf import units
from qwenperf.report.html_trace import width
from qwenperf.traces.diff import REQUESTS, Change, Kind, TraceDiff, diff, signed

TOP = 15

_SLOW_SHARE = 0.1
"""Slow steps that add less than this share of a token are not worth a line."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What became of an operation, or of a category. ``width`` is of its difference; ``longer``: head takes more."""

    name: str
    base: str
    head: str
    difference: str
    width: float
    longer: bool
    became: str = ""
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class DiffView:
    """Two traces compared; ``unexplained`` is empty where they show what was timed, ``programs`` where one runs."""

    told: tuple[str, ...]
    unexplained: str
    categories: tuple[Moved, ...]
    programs: tuple[Moved, ...]
    operations: tuple[Moved, ...]
    rest: str


def diff_view(base: Any, head: Any, timed: Mapping[str, float]) -> DiffView:
    """Return what a page shows of two ``trace_summary``; ``timed`` are the seconds of a token, by side.

    Raises:
      RecordError: one of them is none, or shows nothing.
    """
    found = diff(base, head, timed_base_s=timed.get("base"), timed_head_s=timed.get("head"), timed=REQUESTS)
    most = max((abs(one.difference_s) for one in found.changes), default=0.0)
    rest = found.changes[TOP:]
    return DiffView(
        told=tuple(_told(found)),
        unexplained=found.unexplained(),
        categories=_sums(found.categories),
        programs=_sums(found.programs) if len(found.programs) > 1 else (),
        operations=tuple(_operation(one, most) for one in found.changes[:TOP]),
        rest=f"{len(rest)} more: {signed(sum(one.difference_s for one in rest))} together" if rest else "",
    )


def _told(found: TraceDiff) -> list[str]:
    what = "whole requests" if found.of == REQUESTS else "steady steps"
    told = [f"a token in the traces, of {what}: {_sides(found.base_s, found.head_s)}"]
    if found.timed_base_s is not None and found.timed_head_s is not None:
        timed = _sides(found.timed_base_s, found.timed_head_s)
        told.append(f"as timed without the profiler, whole requests, prefill included: {timed}")
    if max(found.slow_base_s, found.slow_head_s) > _SLOW_SHARE * found.head_s:
        told.append(f"slow steps, left out here, add to the mean: {_sides(found.slow_base_s, found.slow_head_s)}")
    return told


def _sums(sums: Sequence[tuple[str, float, float]]) -> tuple[Moved, ...]:
    most = max((abs(new - old) for _, old, new in sums), default=0.0)
    return tuple(_moved(name, old, new, most) for name, old, new in sums)


def _sides(base: float, head: float) -> str:
    return f"{units.seconds(base)} -> {units.seconds(head)} ({signed(head - base)})"


def _operation(one: Change, most: float) -> Moved:
    became = "" if one.kind is Kind.SAME else one.kind.value
    return _moved(one.name, one.base_s, one.head_s, most, became=became, place=one.detail)


def _moved(name: str, base: float, head: float, most: float, *, became: str = "", place: str = "") -> Moved:
    return Moved(
        name=name,
        base=units.seconds(base),
        head=units.seconds(head),
        difference=signed(head - base),
        width=width(abs(head - base), most),
        longer=head > base,
        became=became,
        place=place,
    )
