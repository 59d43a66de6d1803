"""What a comparison of the same code with itself says of the machine: how often it would cry wolf, and what it can see.

The pairs' signs mean nothing here, so that drawing them anew makes as many comparisons of unchanged code as are wanted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from qwenperf.gate.speed import pair_estimates
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Finding, Outcome, Severity
from qwenperf.stats.sequential import judge
from qwenperf.stats.spending import Plan

DRAWS = 400
_LEVEL = 0.05
"""Chance that pinning, which does nothing, is said to help or to hurt."""

_TINY = 1e-18
"""Stands for the mean square of ratios that are all 1: a clock that sees no difference has no logarithm."""

_LEAST_RATIO = 1.2
"""What the slowdown that is found must change by before anybody is told to compare otherwise. Chosen."""

SIGHT, PINNING = "aa-sight", "aa-pinning"
"""Codes of what an A/A comparison finds out about the machine."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What one case's pairs can tell apart on this machine; ``false_fails`` of ``draws`` redrawn comparisons failed.

    ``deviation`` is the standard deviation of the pairs' log ratios around zero; ``smallest_effect`` the slowdown that
    would be found, relative. ``ratios`` are the log ratios themselves, which the record has as its pairs.
    """

    case: str
    pairs: int
    deviation: float
    smallest_effect: float
    false_fails: int
    draws: int
    ratios: tuple[float, ...] = field(default=(), repr=False)

    def text(self) -> str:
        """Return one line for people."""
        seen = f"finds a slowdown of {self.smallest_effect:.1%}, pairs deviate by {self.deviation:.1%}"
        return (
            f"{self.case}: {seen}; {self.false_fails} of {self.draws} redrawn comparisons failed ({self.pairs} pairs)"
        )

    def finding(self) -> Finding:
        """Return it as a finding, which the record keeps; what no plan of pairs finds has no ``smallest_effect``."""
        seen = self.smallest_effect if math.isfinite(self.smallest_effect) else None
        rate = self.false_fails / self.draws if self.draws else None
        told = {name: value for name, value in asdict(self).items() if name != "ratios"}
        return Finding(
            code=SIGHT,
            severity=Severity.NOTE,
            message=self.text(),
            data={**told, "smallest_effect": seen, "false_fail_rate": rate},
        )


def sights(comparison: ComparisonRecord, plan: Plan, draws: int = DRAWS) -> tuple[Sight, ...]:
    """Return what each case of an A/A comparison says of the machine; cases with too few pairs say nothing."""
    found = []
    for case in comparison.cases:
        values = [one.wall for one in pair_estimates(comparison.pairs, case.id, 1)]
        if len(values) >= plan.looks[0]:
            found.append(_sight(case.id, values, plan, draws))
    return tuple(found)


def _sight(case: str, values: Sequence[float], plan: Plan, draws: int) -> Sight:
    draw = random.Random(case)  # noqa: S311  (signs, not secrets)
    decision = judge({case: values}, {}, plan)[case]
    fails = 0
    for _ in range(draws):
        redrawn = [value * draw.choice((-1, 1)) for value in draw.choices(values, k=plan.looks[-1])]
        fails += judge({case: redrawn}, {}, plan)[case].outcome is Outcome.FAIL
    deviation = (sum(value * value for value in values) / len(values)) ** 0.5
    return Sight(
        case=case,
        pairs=len(values),
        deviation=deviation,
        smallest_effect=decision.smallest_effect,
        false_fails=fails,
        draws=draws,
        ratios=tuple(values),
    )


def pinning(free: Sequence[Sight], pinned: Sequence[Sight]) -> tuple[Finding, ...]:
    """Return whether keeping processes on one core lets this machine see smaller slowdowns; of no pairs nothing.

    It is said to help or to hurt where the slowdown that is found changes by a fifth and the pairs' deviations differ
    by more than chance explains: those of a dozen pairs often differ as much where nothing was changed.
    """
    both = [(one, other) for one in free for other in pinned if one.case == other.case]
    if not both:
        return ()
    before, after = (sorted(one.smallest_effect for one in side)[len(side) // 2] for side in zip(*both, strict=True))
    frees, pins = (list(zip(*(one.ratios for one in side), strict=False)) for side in zip(*both, strict=True))
    chance = _chance(frees, pins)
    helps, hurts = (
        chance <= _LEVEL and one < other / _LEAST_RATIO for one, other in ((after, before), (before, after))
    )
    counts = f"{len(frees)} and {len(pins)} pairs"
    says = "helps" if helps else "hurts" if hurts else f"makes no difference that {counts} can tell"
    return (
        Finding(
            code=PINNING,
            severity=Severity.NOTE,
            message=f"pinning {says} here: a slowdown of {before:.1%} is found free, {after:.1%} pinned to one core.",
            advice="Compare with --cores 1." if helps else "",
            data={"helps": helps, "hurts": hurts, "p_value": chance},
        ),
    )


def _chance(free: Sequence[Sequence[float]], pinned: Sequence[Sequence[float]], draws: int = 1000) -> float:
    """Return how often pairs that are dealt to the sides anew deviate as differently as those that were measured.

    A row is a pair: the log ratios of all cases, which share what the machine did then and so are dealt together. A
    permutation test (Fisher, *The Design of Experiments*, 1935), which asks nothing of how ratios are distributed; the
    measured deal counts as one of those drawn, so that no chance is 0.
    """
    squares = [[value * value for value in row] for row in (*free, *pinned)]
    seen = abs(_apart(squares, len(free)))
    draw = random.Random(len(squares))  # noqa: S311  (deals, not secrets)
    hits = 0
    for _ in range(draws):
        draw.shuffle(squares)
        hits += abs(_apart(squares, len(free))) >= seen
    return (1 + hits) / (1 + draws)


def _apart(squares: Sequence[Sequence[float]], count: int) -> float:
    """Return the log ratio of the mean squares of the first ``count`` rows and the others, summed over cases."""
    parts = (squares[:count], squares[count:])
    sides = [[math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] for rows in parts]
    return math.fsum(math.log((one or _TINY) / (other or _TINY)) for one, other in zip(*sides, strict=True))
