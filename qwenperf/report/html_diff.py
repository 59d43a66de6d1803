"""The traces of a comparison's two sides, as a page shows them: what took longer in head, what less. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf import units
from qwenperf.report.html_trace import width
from qwenperf.traces.diff import Change, Kind, TraceDiff, diff, signed

TOP = 15


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
    """Two traces compared; ``unexplained`` is empty where the traces show what was timed."""

    told: tuple[str, ...]
    unexplained: str
    categories: tuple[Moved, ...]
    operations: tuple[Moved, ...]
    rest: str


def diff_view(base: Any, head: Any, timed: Mapping[str, float]) -> DiffView:
    """Return what a page shows of two ``trace_summary``; ``timed`` are the seconds of a token, by side.

    Raises:
      RecordError: one of them is none, or shows nothing.
    """
    found = diff(base, head, timed_base_s=timed.get("base"), timed_head_s=timed.get("head"))
    most = max((abs(one.difference_s) for one in found.changes), default=0.0)
    rest = found.changes[TOP:]
    moved = max((abs(new - old) for _, old, new in found.categories), default=0.0)
    return DiffView(
        told=tuple(_told(found)),
        unexplained=_unexplained(found),
        categories=tuple(_moved(name, old, new, moved) for name, old, new in found.categories),
        operations=tuple(_operation(one, most) for one in found.changes[:TOP]),
        rest=f"{len(rest)} more: {signed(sum(one.difference_s for one in rest))} together" if rest else "",
    )


def _told(found: TraceDiff) -> list[str]:
    told = [f"a token in the traces: {_sides(found.base_s, found.head_s)}"]
    if found.timed_base_s is not None and found.timed_head_s is not None:
        timed = _sides(found.timed_base_s, found.timed_head_s)
        told.append(f"as timed without the profiler, whole requests, prefill included: {timed}")
    return told


def _unexplained(found: TraceDiff) -> str:
    if found.unexplained_s is None or found.reconciles():
        return ""
    return f"the traces leave {signed(found.unexplained_s)} a token of that unexplained"


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
