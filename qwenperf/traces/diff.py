"""Compares two traces: which operations, or the host, took more or less time per token.

All differences add up to the difference of the steps: what is not explained shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from qwenperf import units
from qwenperf.traces import graphs
from qwenperf.traces.changes import HOST_GAP, REQUESTS, REST, STEPS, Change, Kind, TraceDiff, signed
from qwenperf.traces.matching import match
from qwenperf.traces.tokens import PerToken, Row, per_token

__all__ = [
    "HOST_GAP",
    "REQUESTS",
    "REST",
    "STEPS",
    "Change",
    "Kind",
    "TraceDiff",
    "diff",
    "longest_lines",
    "of",
    "signed",
    "top_lines",
]

_NOTHING_S = 1e-12


def diff(
    base: Any,
    head: Any,
    *,
    timed_base_s: float | None = None,
    timed_head_s: float | None = None,
    timed: str = STEPS,
) -> TraceDiff:
    """Compare two ``trace_summary``; ``timed`` is what was timed without a profiler: ``steps`` or ``requests``.

    Raises:
      RecordError: one of them is none.
    """
    old, new = per_token(base), per_token(head)
    sign = 1 if new.step_s >= old.step_s else -1
    changes = sorted(_changes(old, new), key=lambda one: (-sign * one.difference_s, one.name))
    names = sorted({*old.categories, *new.categories}, key=lambda name: -new.categories.get(name, 0.0))
    return TraceDiff(
        base_s=old.step_s,
        head_s=new.step_s,
        changes=tuple(changes),
        categories=(
            *((name, old.categories.get(name, 0.0), new.categories.get(name, 0.0)) for name in names),
            (HOST_GAP, old.gap_s, new.gap_s),
        ),
        programs=tuple(_programs(old, new)),
        of=REQUESTS if all(of(one) == REQUESTS for one in (base, head)) else STEPS,
        timed=timed,
        slow_base_s=old.slow_s,
        slow_head_s=new.slow_s,
        timed_base_s=timed_base_s,
        timed_head_s=timed_head_s,
    )


def of(summary: Any) -> str:
    """Return what a trace is of: whole ``requests``, or ``steps``."""
    return REQUESTS if isinstance(summary, Mapping) and summary.get("of") == REQUESTS else STEPS


def _programs(old: PerToken, new: PerToken) -> Iterator[tuple[str, float, float]]:
    """Yield the seconds of each program, what changed most first; of operations that are listed."""
    sums: dict[str, list[float]] = {}
    for side, seen in enumerate((old, new)):
        for row in seen.rows:
            if row.program:
                sums.setdefault(row.program, [0.0, 0.0])[side] += row.seconds
    for name, (base_s, head_s) in sorted(sums.items(), key=lambda item: -abs(item[1][1] - item[1][0])):
        yield name, base_s, head_s


def top_lines(
    base: Any,
    head: Any,
    most: int = 3,
    *,
    timed: Mapping[str, float] = MappingProxyType({}),
    timed_of: str = STEPS,
) -> tuple[str, ...]:
    """Return the lines on what slowed a token most from ``base`` to ``head``, two ``trace_summary``.

    ``timed`` are the seconds of a token without a profiler, by side, of ``timed_of``; what the traces leave of that is
    the last line. Of whole requests a line says which program, the prefill or the loop, took how much longer.
    Never raises: a record without traces explains nothing, and that must not cost a verdict.
    """
    try:
        found = diff(base, head, timed_base_s=timed.get("base"), timed_head_s=timed.get("head"), timed=timed_of)
    except Exception:  # noqa: BLE001  (records of any age and origin)
        return ()
    lines = [one.line() for one in found.changes[:most] if one.difference_s > 0] if found.difference_s > 0 else []
    more = (found.by_program() if lines and found.of == REQUESTS else "", found.unexplained())
    lines += [line for line in more if line]
    return tuple(lines)


def _changes(old: PerToken, new: PerToken) -> Iterator[Change]:
    waited = max(new.waited, default=("", 0.0), key=lambda one: one[1] - dict(old.waited).get(one[0], 0.0))
    for name, base_s, head_s, detail in (
        (HOST_GAP, old.gap_s, new.gap_s, f"no operation runs; the host is in {waited[0]}" if waited[0] else ""),
        (REST, old.rest_s, new.rest_s, ""),
    ):
        if max(abs(base_s), abs(head_s)) > _NOTHING_S:
            category = "other" if name == REST else "host"
            yield Change(name=name, kind=Kind.SAME, category=category, base_s=base_s, head_s=head_s, detail=detail)
    for before, after in match(old.rows, new.rows):
        row = after or before
        assert row is not None
        yield Change(
            name=row.name,
            kind=_kind(before, after),
            category=row.category,
            base_s=before.seconds if before else 0.0,
            head_s=after.seconds if after else 0.0,
            base_count=before.count if before else 0.0,
            head_count=after.count if after else 0.0,
            program=row.program,
            detail=_detail(before, after),
        )


def _kind(before: Row | None, after: Row | None) -> Kind:
    if before is None:
        return Kind.NEW
    if after is None:
        return Kind.GONE
    if (before.name, before.shape, before.category) != (after.name, after.shape, after.category):
        return Kind.CHANGED
    return Kind.MOVED if (before.source, before.program) != (after.source, after.program) else Kind.SAME


def _detail(before: Row | None, after: Row | None) -> str:
    row = after or before
    assert row is not None
    told = f"{row.category}, {row.told()}" if row.told() else row.category
    if row.category == graphs.CATEGORY:
        told += f"; its operations are hidden, {graphs.FLAG} in XLA_FLAGS shows them"
    if before is None or after is None:
        return told
    pairs = ((before.name, after.name), (before.shape, after.shape), (before.source, after.source))
    was = [old for old, new in pairs if old != new and old]
    return f"{told}; was {', '.join(was)}" if was else told


def longest_lines(summary: Any, most: int = 3) -> tuple[str, ...]:
    """Return the lines on what a token spends most time in, the host included; none where there is no trace."""
    try:
        seen = per_token(summary)
    except Exception:  # noqa: BLE001  (as above)
        return ()
    spent = [(seen.gap_s, HOST_GAP), *((row.seconds, f"{row.name} ({row.category}) {row.told()}") for row in seen.rows)]
    longest = sorted(spent, reverse=True)[:most]
    return tuple(
        f"{text.rstrip()}: {units.seconds(seconds)} of {units.seconds(seen.step_s)} a token"
        for seconds, text in longest
    )
