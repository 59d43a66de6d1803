"""How a comparison spends its chances of error: over its looks, and over its cases. Knows nothing of what was measured.

Spending functions: Lan and DeMets, "Discrete sequential boundaries for clinical trials" (1983); the power family
alpha * t**rho: Kim and DeMets, "Design and analysis of group sequential tests based on the type I error spending rate
function" (1987). What one look spends is its own level, which is a little stricter than boundaries that use the
correlation of the looks, and needs no distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from qwenperf.errors import UsageError

FAIL_POWER = 2.75
"""The largest power, in steps of 0.05, with which 12 pairs of 20 may fail one of ten cases at 1%.

0.6**rho / 1000 must not be below the 2**-12 that 12 signs can show.
A larger one leaves more to the last look and stops at 12 pairs for nobody; a smaller one costs the last look its sight.
"""

PASS_POWER = 1.0
"""Passing early is what unchanged code lives from, so its chances are spent evenly."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a comparison looks, and how often it may be wrong.

    ``looks`` are pairs at each look. ``alpha`` is the chance that a comparison of unchanged code has any false fail
    (and, apart, any false improvement). ``margin`` is the relative slowdown that a case may have without failing.
    ``pass_error`` is the chance that one case that is slower by its margin passes. ``power`` is how often a slowdown
    must be found to be called detectable.
    """

    looks: tuple[int, ...] = (6, 12, 20)
    alpha: float = 0.01
    margin: float = 0.03
    pass_error: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        """Refuse what no comparison can follow."""
        object.__setattr__(self, "looks", tuple(self.looks))
        if not self.looks or self.looks[0] < LEAST_PAIRS or list(self.looks) != sorted(set(self.looks)):
            told = ",".join(map(str, self.looks)) or "none"
            raise UsageError(f"looks {told} do not rise from {LEAST_PAIRS} pairs or more.")
        for name in ("alpha", "pass_error", "power"):
            if not 0 < getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it lies between 0 and 1.")
        if not (math.isfinite(self.margin) and self.margin > 0):
            raise UsageError(f"the margin is {self.margin}; it is a relative slowdown above 0.")


LEAST_PAIRS = 6
"""Below, no interval is worth its name."""


def provable(count: int, level: float) -> bool:
    """Say whether ``count`` signs can be as rare as ``level``."""
    return 0.5**count <= level


def can_fail(plan: Plan, cases: int) -> bool:
    """Say whether any look of ``plan`` can fail one of ``cases`` cases, however much slower it is.

    A plan of too few pairs for its alpha (6 and 1%) may pass a case, and leaves every slowdown inconclusive.

    Raises:
      UsageError: no case.
    """
    if cases < 1:
        raise UsageError(f"a comparison of {cases} cases cannot be planned; it has 1 or more.")
    return any(provable(pairs, fail_level(plan, look, 1 / cases)) for look, pairs in enumerate(plan.looks))


def last_can_fail(plan: Plan, cases: int) -> bool:
    """Say whether the last look can fail one of ``cases`` cases."""
    return provable(plan.looks[-1], fail_level(plan, len(plan.looks) - 1, 1 / cases))


def least_last(plan: Plan, cases: int) -> int:
    """Return the pairs that the last look needs, at least as many as it has, to fail one of ``cases`` cases."""
    while not last_can_fail(plan, cases):
        plan = replace(plan, looks=(*plan.looks[:-1], plan.looks[-1] + 1))
    return plan.looks[-1]


def fail_level(plan: Plan, look: int, share: float = 1.0) -> float:
    """Return the one-sided level at ``look`` (0 is the first) of a case that has ``share`` of alpha.

    A look whose signs cannot reach what it may spend (6 pairs and 1%) leaves it to the next.
    """
    return _level(plan, look, plan.alpha * share, FAIL_POWER)


def pass_level(plan: Plan, look: int) -> float:
    """Return the one-sided level at ``look`` (0 is the first) at which a case passes."""
    cumulative = [plan.pass_error * math.pow(pairs / plan.looks[-1], PASS_POWER) for pairs in (0, *plan.looks)]
    return cumulative[look + 1] - cumulative[look]


def _level(plan: Plan, look: int, alpha: float, power: float) -> float:
    spent = available = 0.0
    for pairs in plan.looks[: look + 1]:
        available = alpha * math.pow(pairs / plan.looks[-1], power) - spent
        spent += available if provable(pairs, available) else 0.0
    return available
