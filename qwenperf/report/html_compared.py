"""One case of a comparison as a section of a page: verdicts, pairs, both sides' traces and sizes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from markupsafe import Markup

from qwenperf import units
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import pair_estimates, token_times
from qwenperf.report.explained import explain
from qwenperf.report.html_blocks import Note, attempt
from qwenperf.report.html_case import Href, VerdictRow, verdict_rows
from qwenperf.report.html_diff import DiffView, diff_view
from qwenperf.report.html_facts import Fact, facts
from qwenperf.report.html_signs import Sign, of_compared
from qwenperf.report.html_trace import TraceView, trace_view
from qwenperf.report.pairs_svg import pairs_svg
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideEvidence
from qwenperf.schema.records import Verdict

SIDES = ("base", "head")
_STAGES = {1: "pairs in the order of time", 2: "fresh pairs that confirm"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The pairs of one stage: a drawing, and the same in words."""

    title: str
    svg: Markup
    told: str


@dataclass(frozen=True, kw_only=True)
class Size:
    """A metric that does not depend on the clock, on both sides."""

    name: str
    base: str
    head: str
    change: str


@dataclass(frozen=True, kw_only=True)
class SideTrace:
    """One side's trace, and the folder that it lies in."""

    side: str
    view: TraceView
    href: str


@dataclass(frozen=True, kw_only=True)
class ComparedView:
    """All that a page shows of one compared case."""

    anchor: str
    id: str
    sign: Sign
    brief: str
    explained: tuple[str, ...]
    verdicts: tuple[VerdictRow, ...]
    pictures: tuple[Picture, ...]
    diff: DiffView | None
    notes: tuple[str, ...]
    traces: tuple[SideTrace, ...]
    sizes: tuple[Size, ...]
    spec: tuple[Fact, ...]


def compared_view(comparison: ComparisonRecord, case: ComparedCase, anchor: str, href: Href) -> ComparedView:
    """Return what a page shows of ``case``; what the record does not hold, or holds oddly, is left out or told."""
    speed = next((verdict for verdict in case.verdicts if verdict.gate == SPEED), None)
    notes: list[str] = []

    def kept(note: Note) -> None:
        notes.append(note.text)

    base = attempt("base's trace", lambda: _trace(case, "base", href), kept)
    head = attempt("head's trace", lambda: _trace(case, "head", href), kept)
    difference = attempt("the difference of the traces", lambda: _difference(comparison, case), kept)
    return ComparedView(
        anchor=anchor,
        id=case.id,
        sign=of_compared(case),
        brief=attempt("", lambda: _brief(speed), lambda _: ""),
        explained=attempt("", lambda: _explained(comparison, case, speed), lambda note: (note.text,)),
        verdicts=verdict_rows(case.verdicts),
        pictures=attempt("the pairs", lambda: tuple(_pictures(comparison, case, speed)), lambda _: ()),
        diff=difference,
        notes=(*notes, *_untraced(case)),
        traces=tuple(filter(None, (base, head))),
        sizes=tuple(_sizes(case.base, case.head)),
        spec=facts(case.spec),
    )


def _brief(speed: Verdict | None) -> str:
    estimate = None if speed is None else speed.data.get("stage_1", {}).get("estimate")
    return "" if estimate is None else f"{estimate:+.1%} time"


def _explained(comparison: ComparisonRecord, case: ComparedCase, speed: Verdict | None) -> tuple[str, ...]:
    return () if speed is None else tuple(explain(comparison, case, speed))


def _pictures(comparison: ComparisonRecord, case: ComparedCase, speed: Verdict | None) -> Iterator[Picture]:
    for stage, title in _STAGES.items():
        values = [one.wall for one in pair_estimates(comparison.pairs, case.id, stage)]
        if not values:
            continue
        seen = {} if speed is None else speed.data.get(f"stage_{stage}", {})
        margin = seen.get("margin") or comparison.plan.get("margins", {}).get(case.id) or comparison.plan["margin"]
        drawn = pairs_svg(
            f"{case.id}: {title}", values, margin=float(margin), low=seen.get("low"), high=seen.get("high")
        )
        told = ", ".join(f"{math.expm1(one):+.1%}" for one in values)
        yield Picture(title=title, svg=Markup(drawn), told=told)  # noqa: S704  (our own drawing, which escapes titles)


def _difference(comparison: ComparisonRecord, case: ComparedCase) -> DiffView | None:
    summaries = _told(case, "trace_summaries")
    if not all(isinstance(summaries.get(side), Mapping) for side in SIDES):
        return None
    return diff_view(summaries["base"], summaries["head"], token_times(comparison.pairs, case))


def _trace(case: ComparedCase, side: str, href: Href) -> SideTrace | None:
    summary, file = _told(case, "trace_summaries").get(side), _told(case, "traces").get(side)
    if summary is None:
        return None
    place = href(str(PurePosixPath(file).parent)) if isinstance(file, str) else ""
    return SideTrace(side=side, view=trace_view(summary), href=place)


def _untraced(case: ComparedCase) -> Iterator[str]:
    """Yield why a side has no trace."""
    for side, remarks in _told(case, "trace_remarks").items():
        yield from (f"trace of {side}: {text}" for text in listed(remarks))


def _sizes(base: SideEvidence | None, head: SideEvidence | None) -> Iterator[Size]:
    old, new = (side.metrics if side else {} for side in (base, head))
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        change = ""
        if before and after and before.value != after.value:
            change = f"{after.value / before.value - 1:+.1%}" if before.value else "new"
        yield Size(
            name=name,
            base="-" if before is None else units.quantity(before.value, before.unit),
            head="-" if after is None else units.quantity(after.value, after.unit),
            change=change,
        )


def _told(case: ComparedCase, name: str) -> Mapping[str, Any]:
    found = case.extra.get(name)
    return found if isinstance(found, Mapping) else {}


def listed(found: object) -> Sequence[object]:
    """Return what is a list of a record's free data; nothing of what is none."""
    return found if isinstance(found, list | tuple) else ()
