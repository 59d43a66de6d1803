"""What the anchors of a comparison say: kernels that no change touches, timed beside the cases in every pair.

They explain and decide nothing: a pair counts whatever its anchors were, so that nobody chooses among pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.stats.pairs import estimate, relative
from qwenperf.stats.turns import side_time

PREFIX = "anchor/"
APART = 0.10
"""Relative difference of an anchor between the sides from which a pair is named."""


def anchor_differences(pairs: Sequence[PairRecord], stage: int) -> dict[str, dict[int, float]]:
    """Return for each anchor how much longer it took in head, relative, by the number of the pair."""
    found: dict[str, dict[int, float]] = {}
    for pair in pairs:
        if pair.stage == stage and pair.failed is None:
            for name, rounds in pair.rounds.items():
                if name.startswith(PREFIX):
                    found.setdefault(name, {})[pair.number] = _difference(rounds)
    return found


def _difference(rounds: Sequence[RoundRecord]) -> float:
    base, head = ([side_time(one.wall_s, one.order, letter) for one in rounds] for letter in "AB")
    return relative(estimate(base, head).wall)


def anchor_notes(pairs: Sequence[PairRecord], stage: int = 1) -> tuple[str, ...]:
    """Name the pairs in which an anchor differed between the sides: there the machine did, and not only the code."""
    notes = []
    for name, by_pair in anchor_differences(pairs, stage).items():
        apart = {pair: value for pair, value in by_pair.items() if abs(math.log1p(value)) >= math.log1p(APART)}
        if apart:
            told = ", ".join(f"{pair} ({value:+.0%})" for pair, value in apart.items())
            kind = name.removeprefix(PREFIX)
            notes.append(f"the {kind} anchor, which no change touches, differed by {APART:.0%} or more in pair {told}")
    return tuple(notes)


def anchor_medians(pairs: Sequence[PairRecord], stage: int = 1) -> dict[str, float]:
    """Return the median difference of each anchor over the pairs: far from 0, the machine took sides."""
    found = anchor_differences(pairs, stage)
    return {name: statistics.median(by_pair.values()) for name, by_pair in found.items()}
