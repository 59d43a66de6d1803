"""One case's bounds at a look, on log ratios; Holm's steps over the cases. Knows nothing of outcomes and of words.

Every bound is one-sided and below: who wants the upper one turns the signs round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qwenperf.stats import signs, student
from qwenperf.stats.spending import Plan, fail_level, provable

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LogRatios:
    """The log ratios of one case's pairs, with their sorted Walsh averages; ``widening`` as in ``dependence``."""

    values: Array
    averages: Array
    widening: float

    @cached_property
    def centre(self) -> float:
        """The Hodges-Lehmann estimate: the median of the Walsh averages."""
        last = len(self.averages) - 1
        return float(self.averages[last // 2] + self.averages[(last + 1) // 2]) / 2

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the pairs, by their own sum of squares."""
        distances = self.values - self.values.sum() / len(self.values)
        return math.sqrt(float(distances @ distances) / (len(self.values) - 1))

    @cached_property
    def flips(self) -> float:
        """The share of sign flips with a sum at least as high."""
        return signs.flip_p(self.values)

    @cached_property
    def mirrored(self) -> LogRatios:
        """The pairs of the comparison with head and base swapped."""
        return LogRatios(values=-self.values, averages=-self.averages[::-1], widening=self.widening)

    def lower(self, level: float) -> float:
        """Return what the centre lies below with probability ``level`` at most: by signed ranks where they reach it.

        Six pairs reach 1/64; below their reach it is Student's t, which believes in a normal distribution.
        """
        if provable(len(self.values), level):
            bound = signs.lower_bound(self.averages, len(self.values), level)
            return self.centre - self.widening * (self.centre - bound)
        return self.student_lower(level, self.deviation)

    def student_lower(self, level: float, deviation: float) -> float:
        """Return the bound by Student's t with a ``deviation`` of the pairs."""
        count = len(self.values)
        return self.centre - self.widening * student.quantile(level, count - 1) * deviation / math.sqrt(count)


def claims(cases: Mapping[str, LogRatios], family: int, plan: Plan, look: int) -> dict[str, float]:
    """Return each case's lower bound by Holm's steps: a bound above 0 is a claim, and all claims together err in alpha.

    The case with the smallest p gets alpha / ``family``; each claim frees its share for the next case; from the first
    that claims nothing on, all have what that one had. Holm, "A simple sequentially rejective multiple test procedure"
    (1979); over looks: Ye, Li, Liu and Yao, "A group sequential Holm procedure with multiple primary endpoints" (2013).
    A claim needs the ranks' proof and the sign flips' agreement at alpha: without either the bound is 0 at most.
    """
    order = sorted(cases, key=lambda name: signs.rank_p(cases[name].averages, len(cases[name].values)))
    found, open_cases, going_on = {}, family, True
    for name in order:
        level = fail_level(plan, look, 1 / open_cases)
        bound = cases[name].lower(level)
        if bound > 0 and not _agreed(cases[name], level, plan):
            bound = 0.0
        found[name] = bound if going_on else min(bound, 0.0)
        going_on = going_on and bound > 0
        open_cases -= going_on
    return found


def _agreed(case: LogRatios, level: float, plan: Plan) -> bool:
    return provable(len(case.values), level) and case.flips <= plan.alpha
