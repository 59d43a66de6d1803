"""What a comparison of the same code with itself says of the machine: how often it would cry wolf, and what it can see.

The pairs' signs mean nothing here, so that drawing them anew makes as many comparisons of unchanged code as are wanted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from qwenperf.gate.speed import pair_estimates
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Finding, Outcome, Severity
from qwenperf.stats.sequential import judge
from qwenperf.stats.spending import Plan

DRAWS = 400
SIGHT, PINNING = "aa-sight", "aa-pinning"
"""Codes of what an A/A comparison finds out about the machine."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What one case's pairs can tell apart on this machine; ``false_fails`` of ``draws`` redrawn comparisons failed.

    ``deviation`` is the standard deviation of the pairs' log ratios around zero; ``smallest_effect`` the slowdown that
    would be found, relative.
    """

    case: str
    pairs: int
    deviation: float
    smallest_effect: float
    false_fails: int
    draws: int

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
        return Finding(
            code=SIGHT,
            severity=Severity.NOTE,
            message=self.text(),
            data={**asdict(self), "smallest_effect": seen, "false_fail_rate": rate},
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
    )


def pinning(free: Sequence[Sight], pinned: Sequence[Sight]) -> tuple[Finding, ...]:
    """Return whether keeping processes on one core lets this machine see smaller slowdowns; of no pairs nothing."""
    pairs = [(one.smallest_effect, other.smallest_effect) for one in free for other in pinned if one.case == other.case]
    if not pairs:
        return ()
    before, after = (sorted(values)[len(values) // 2] for values in zip(*pairs, strict=True))
    helps, hurts = after < before / 1.2, before < after / 1.2
    says = "helps" if helps else "hurts" if hurts else "makes no difference"
    return (
        Finding(
            code=PINNING,
            severity=Severity.NOTE,
            message=f"pinning {says} here: a slowdown of {before:.1%} is found free, {after:.1%} pinned to one core.",
            advice="Compare with --cores 1." if helps else "",
            data={"helps": helps, "hurts": hurts},
        ),
    )
