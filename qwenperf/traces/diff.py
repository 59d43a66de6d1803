"""Compares two traces: which operations, or the host, took more or less time per token.

All differences add up to the difference of the steps: what is not explained shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from qwenperf import units
from qwenperf.traces.matching import match
from qwenperf.traces.tokens import PerToken, Row, per_token

HOST_GAP, REST = "host gap", "operations not listed"
_NOTHING_S = 1e-12
ENOUGH = 0.1
"""The share of a timed difference that traces may leave unexplained without a word."""


class Kind(StrEnum):
    """What became of an operation. Moved: from another line. Changed: of another shape, or fused otherwise."""

    SAME = "same"
    MOVED = "moved"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One operation, or the host, on both sides; seconds and runs per token. ``detail`` says what and where."""

    name: str
    kind: Kind
    category: str
    base_s: float
    head_s: float
    base_count: float = 0.0
    head_count: float = 0.0
    program: str = ""
    detail: str = ""

    @property
    def difference_s(self) -> float:
        """How much more time head takes."""
        return self.head_s - self.base_s

    def line(self) -> str:
        """Say it in one line."""
        kind = "" if self.kind is Kind.SAME else f"{self.kind}: "
        sides = f"{units.seconds(self.base_s)} -> {units.seconds(self.head_s)}"
        spent = f"{signed(self.difference_s)} a token ({sides})"
        return f"{kind}{self.name} {spent}{f': {self.detail}' if self.detail else ''}"


@dataclass(frozen=True, kw_only=True)
class TraceDiff:
    """Two traces compared; seconds per token of typical steps. ``changes`` come in the order of what they add.

    ``slow_base_s`` and ``slow_head_s`` are what slow steps add to a token on average; no change tells of them.
    ``timed_base_s`` and ``timed_head_s`` are the times per token that were measured without a profiler, where known.
    """

    base_s: float
    head_s: float
    changes: tuple[Change, ...]
    categories: tuple[tuple[str, float, float], ...]
    slow_base_s: float = 0.0
    slow_head_s: float = 0.0
    timed_base_s: float | None = None
    timed_head_s: float | None = None

    @property
    def difference_s(self) -> float:
        """How much longer a token takes in head's trace."""
        return self.head_s - self.base_s

    @property
    def unexplained_s(self) -> float | None:
        """What the timed difference has that the traces do not show; ``None`` where nothing was timed."""
        if self.timed_base_s is None or self.timed_head_s is None:
            return None
        return self.timed_head_s - self.timed_base_s - self.difference_s

    def reconciles(self) -> bool:
        """Say whether the traces show the timed difference, within a tenth."""
        if self.unexplained_s is None or self.timed_base_s is None or self.timed_head_s is None:
            return True
        return abs(self.unexplained_s) <= ENOUGH * abs(self.timed_head_s - self.timed_base_s)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        changes = [{**asdict(one), "kind": one.kind.value, "difference_s": one.difference_s} for one in self.changes]
        categories = [{"category": name, "base_s": base, "head_s": head} for name, base, head in self.categories]
        return {
            "base_s": self.base_s,
            "head_s": self.head_s,
            "difference_s": self.difference_s,
            "slow_base_s": self.slow_base_s,
            "slow_head_s": self.slow_head_s,
            "timed_base_s": self.timed_base_s,
            "timed_head_s": self.timed_head_s,
            "unexplained_s": self.unexplained_s,
            "reconciles": self.reconciles(),
            "categories": categories,
            "changes": changes,
        }


def diff(base: Any, head: Any, *, timed_base_s: float | None = None, timed_head_s: float | None = None) -> TraceDiff:
    """Compare two ``trace_summary``.

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
        slow_base_s=old.slow_s,
        slow_head_s=new.slow_s,
        timed_base_s=timed_base_s,
        timed_head_s=timed_head_s,
    )


def top_lines(
    base: Any, head: Any, most: int = 3, *, timed: Mapping[str, float] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the lines on what slowed a token most from ``base`` to ``head``, two ``trace_summary``.

    ``timed`` are the seconds of a token without a profiler, by side; what the traces leave of that is the last line.
    Never raises: a record without traces explains nothing, and that must not cost a verdict.
    """
    try:
        found = diff(base, head, timed_base_s=timed.get("base"), timed_head_s=timed.get("head"))
    except Exception:  # noqa: BLE001  (records of any age and origin)
        return ()
    lines = [one.line() for one in found.changes[:most] if one.difference_s > 0] if found.difference_s > 0 else []
    if found.unexplained_s is not None and not found.reconciles():
        change = signed(timed["head"] - timed["base"])
        lines.append(
            f"the traces leave {signed(found.unexplained_s)} a token of the {change} that was timed unexplained"
        )
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
    if before is None or after is None:
        return told
    pairs = ((before.name, after.name), (before.shape, after.shape), (before.source, after.source))
    was = [old for old, new in pairs if old != new and old]
    return f"{told}; was {', '.join(was)}" if was else told


def signed(seconds: float) -> str:
    """Write a difference in seconds with its sign: ``+1.2 ms``."""
    return f"{'-' if seconds < 0 else '+'}{units.seconds(abs(seconds))}"


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
