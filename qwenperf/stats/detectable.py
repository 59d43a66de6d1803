"""The smallest slowdown that a plan finds: what a verdict that found nothing must say about itself."""

from __future__ import annotations

import math
from statistics import NormalDist

from qwenperf.errors import UsageError
from qwenperf.stats import student
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.pairs import log_ratio, relative
from qwenperf.stats.spending import LEAST_PAIRS, Plan, fail_level, provable

_RANKS_LOSE = 1.03
"""Ranks see this much less than the mean in normal noise, at 20 pairs."""

_WIDTH_LEVEL = 0.02


def smallest_detectable(sd: float, pairs: int, plan: Plan, cases: int = 1) -> float:
    """Return the relative slowdown that ``pairs`` pairs of deviation ``sd`` find with the plan's power.

    ``sd`` is on log ratios. The estimate must reach the margin and the interval leave 0, at the level of the last look
    for one case of ``cases``; the rest is the chance to land that high. It is infinite where the signs of so few pairs
    cannot be as rare as that level: such a plan finds nothing.

    Raises:
      UsageError: a deviation that is none, or fewer pairs or cases than there can be.
    """
    if not (math.isfinite(sd) and sd >= 0) or pairs < LEAST_PAIRS or cases < 1:
        raise UsageError(
            f"no effect can be stated for a deviation of {sd}, {pairs} pairs and {cases} cases.",
            advice=f"Give a deviation of 0 or more, {LEAST_PAIRS} pairs or more and a case.",
        )
    return relative(_smallest(sd / math.sqrt(pairs), pairs, plan, cases, log_ratio(plan.margin)))


def detectable(case: LogRatios, margin: float, cases: int, plan: Plan) -> float:
    """Return the same for a plan that is followed to its end in noise like that of ``case``; infinite as there."""
    last = max(plan.looks[-1], len(case.values))
    error = case.widening * noise(case) / math.sqrt(last)
    return relative(_smallest(error, last, plan, cases, log_ratio(margin)))


def noise(case: LogRatios) -> float:
    """Return the deviation of the pairs as ranks see it, from the width of their interval: tails weigh little."""
    count = len(case.values)
    plain = LogRatios(values=case.values, averages=case.averages, widening=1.0)
    half = (-plain.mirrored.lower(_WIDTH_LEVEL) - plain.lower(_WIDTH_LEVEL)) / 2
    return half / student.quantile(_WIDTH_LEVEL, count - 1) * math.sqrt(count)


def _smallest(error: float, pairs: int, plan: Plan, cases: int, margin: float) -> float:
    level = fail_level(plan, len(plan.looks) - 1, 1 / cases)
    if not provable(pairs, level):
        return math.inf
    threshold = student.quantile(level, pairs - 1)
    power = NormalDist().inv_cdf(plan.power)
    # The deviation is guessed from the same pairs: Johnson and Welch's approximation of the noncentral t.
    seen = threshold + power * math.sqrt(1 + threshold**2 / (2 * (pairs - 1)))
    return max(margin + power * error, _RANKS_LOSE * seen * error)
