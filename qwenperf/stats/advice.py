"""What would settle an inconclusive verdict, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qwenperf.stats import student
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.detectable import noise
from qwenperf.stats.pairs import log_ratio
from qwenperf.stats.spending import Plan, fail_level, last_can_fail, least_last, pass_level

_MANY = 200
"""More pairs than anybody waits for."""

_NOTABLE = 1.2


def settle(case: LogRatios, margin: float, *, cases: int, plan: Plan, look: int, modes: Sequence[float]) -> str:
    """Return what would settle a case that ``look`` left open: pairs, a quieter machine, pinning, another plan."""
    fails = last_can_fail(plan, cases)
    advice = [_more_pairs(case, margin, cases, plan, look) if fails else _other_plan(cases, plan)]
    if modes:
        advice.append(
            f"the pairs have two modes, at {modes[0]:+.1%} and {modes[1]:+.1%}: pin the processes, or look for what"
            " differs between them"
        )
    if case.widening > _NOTABLE:
        advice.append(
            f"neighbouring pairs resemble each other, which widens the interval {case.widening:.1f} times: wait until"
            " the machine is quiet"
        )
    return "; ".join(advice)


def _other_plan(cases: int, plan: Plan) -> str:
    """Return what to plan where the last look fails nothing, however slow it is."""
    family = f"one of {cases} cases" if cases > 1 else "one case"
    return (
        f"a plan whose last look has {least_last(plan, cases)} pairs or more: {plan.looks[-1]} cannot fail {family} at"
        f" an alpha of {plan.alpha:.2g}, however slow it is"
    )


def _more_pairs(case: LogRatios, margin: float, cases: int, plan: Plan, look: int) -> str:
    count, last = len(case.values), plan.looks[-1]
    if look < len(plan.looks) - 1:
        return f"more pairs: {count} of {last} are measured"
    needed = _needed(case, log_ratio(margin), cases, plan)
    # An interval is as narrow with four times the pairs as with half the noise.
    quiet = noise(case) * math.sqrt(count / needed) if needed else 0.0
    calmer = f"pairs that deviate by {quiet:.1%} or less, now {noise(case):.1%}"
    if needed > _MANY:
        return f"a quieter machine or pinned processes: {calmer}"
    return f"about {needed} pairs, or {calmer}"


def _needed(case: LogRatios, margin: float, cases: int, plan: Plan) -> int:
    """Return the pairs after which an estimate as it is now would pass or fail."""
    look, count = len(plan.looks) - 1, len(case.values)
    if case.centre >= margin:
        distance, level = case.centre, fail_level(plan, look, 1 / cases)
    else:
        distance, level = margin - case.centre, pass_level(plan, look)
    spread = case.widening * noise(case) * student.quantile(level, count - 1)
    return max(count + 1, math.ceil((spread / distance) ** 2)) if distance > 0 else _MANY + 1
