"""One case's verdict: what a look found on log ratios, and the same in relative differences with what explains it."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.schema.records import Outcome
from qwenperf.stats.advice import settle
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.detectable import detectable
from qwenperf.stats.modes import modes
from qwenperf.stats.pairs import relative
from qwenperf.stats.spending import LEAST_PAIRS, Plan

OPEN = Outcome.INCONCLUSIVE

CROSS_CHECK_PAIRS = 12
"""Pairs from which sign flips are counted beside the ranks."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the pairs of one case say at a look; differences are relative (0.05: head is 5% slower).

    fail: ``low`` above 0 and ``estimate`` at least the margin. improved: ``high`` below 0 at the strict level of
    ``low``, and ``estimate`` at most minus the margin. pass: ``high`` below the margin; before the last look, a case
    that may yet prove to be improved stays open. ``smallest_effect`` is the slowdown that the plan's last look finds
    with its ``power`` in noise like this. ``p_permutation`` is the share of sign flips at least as far to the side of
    the estimate; ``modes`` are the centres of two groups of pairs, or empty. ``widening`` is how much wider the
    interval is because neighbouring pairs resemble each other.
    """

    outcome: Outcome
    estimate: float
    low: float
    high: float
    margin: float
    pairs: int
    look: int
    smallest_effect: float
    settle: str
    p_permutation: float | None
    modes: tuple[float, ...]
    widening: float

    @property
    def final(self) -> bool:
        """Whether more pairs of this plan change nothing."""
        return self.outcome is not Outcome.INCONCLUSIVE


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look found out of one case, on log ratios; ``case`` is ``None`` where too few pairs were measured."""

    outcome: Outcome
    low: float
    high: float
    margin: float
    count: int
    look: int
    case: LogRatios | None


def describe(found: Look, family: int, plan: Plan) -> Decision:
    """Return what a look found in relative differences, with what explains it."""
    if found.case is None:
        return _too_few(found, plan)
    case, two = found.case, tuple(relative(mode) for mode in modes(found.case.values))
    is_open = found.outcome is OPEN
    return Decision(
        outcome=found.outcome,
        estimate=relative(case.centre),
        low=relative(min(found.low, case.centre)),
        high=relative(max(found.high, case.centre)),
        margin=found.margin,
        pairs=found.count,
        look=found.look,
        smallest_effect=detectable(case, found.margin, family, plan),
        settle=settle(case, found.margin, cases=family, plan=plan, look=found.look, modes=two) if is_open else "",
        p_permutation=_cross_check(case),
        modes=two,
        widening=case.widening,
    )


def _cross_check(case: LogRatios) -> float | None:
    if len(case.values) < CROSS_CHECK_PAIRS:
        return None
    return case.flips if case.centre >= 0 else case.mirrored.flips


def _too_few(found: Look, plan: Plan) -> Decision:
    return Decision(
        outcome=OPEN,
        estimate=float("nan"),
        low=-1.0,
        high=float("inf"),
        margin=found.margin,
        pairs=found.count,
        look=found.look,
        smallest_effect=float("inf"),
        settle=f"more pairs: {found.count} of {plan.looks[found.look]} were measured, and {LEAST_PAIRS} are the least",
        p_permutation=None,
        modes=(),
        widening=1.0,
    )
