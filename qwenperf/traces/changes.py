"""What changed between two traces: operations on both sides, programs, and how it reconciles with what was timed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from qwenperf import units

HOST_GAP, REST = "host gap", "operations not listed"
STEPS, REQUESTS = "steps", "requests"
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
    ``programs`` are the seconds of each program's operations; ``of`` says whether the traces are of whole ``requests``
    or of steady ``steps``. ``timed_base_s`` and ``timed_head_s`` are the times per token that were measured without a
    profiler, where known; ``timed`` says of what.
    """

    base_s: float
    head_s: float
    changes: tuple[Change, ...]
    categories: tuple[tuple[str, float, float], ...]
    programs: tuple[tuple[str, float, float], ...] = ()
    of: str = STEPS
    timed: str = STEPS
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

    @property
    def outside(self) -> bool:
        """Say whether what the traces leave lies outside of what they show: requests were timed, and steps traced."""
        return self.timed == REQUESTS and self.of != REQUESTS

    def unexplained(self) -> str:
        """Say in a line what the traces leave of the timed difference; empty where that is little."""
        if self.unexplained_s is None or self.reconciles() or self.timed_base_s is None or self.timed_head_s is None:
            return ""
        change, left = signed(self.timed_head_s - self.timed_base_s), signed(self.unexplained_s)
        if self.outside:
            return (
                f"{left} a token of the {change} that was timed lies outside the steady steps that the traces show: in "
                "the prefill, or on the host between requests"
            )
        return f"the traces leave {left} a token of the {change} that was timed unexplained"

    def by_program(self) -> str:
        """Say which program took how much longer; empty where only one runs."""
        if len(self.programs) < 2:
            return ""
        parts = [f"{signed(head - base)} in {name}" for name, base, head in self.programs]
        gap = next(((base, head) for name, base, head in self.categories if name == HOST_GAP), (0.0, 0.0))
        return f"{signed(self.difference_s)} a token: {', '.join(parts)}, {signed(gap[1] - gap[0])} while nothing runs"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        changes = [{**asdict(one), "kind": one.kind.value, "difference_s": one.difference_s} for one in self.changes]
        categories = [{"category": name, "base_s": base, "head_s": head} for name, base, head in self.categories]
        programs = [{"program": name, "base_s": base, "head_s": head} for name, base, head in self.programs]
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
            "of": self.of,
            "timed": self.timed,
            "categories": categories,
            "programs": programs,
            "changes": changes,
        }


def signed(seconds: float) -> str:
    """Write a difference in seconds with its sign: ``+1.2 ms``."""
    return f"{'-' if seconds < 0 else '+'}{units.seconds(abs(seconds))}"
