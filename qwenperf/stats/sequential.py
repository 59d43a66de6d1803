"""Verdicts on process pairs at a look: fail, pass, improved or inconclusive, for all cases of a comparison at once.

Values are log ratios head/base of fresh process pairs in the order of time. Two errors are bounded, each at its own
level: ``low`` (and everything that claims a difference) so that a comparison of unchanged code has any false fail with
probability ``alpha`` at most; ``high`` so that one case that is slower by its margin passes with probability
``pass_error`` at most.
The method, its assumptions and what it measured are in docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats import signs
from qwenperf.stats.bounds import LogRatios, claims
from qwenperf.stats.decision import CROSS_CHECK_PAIRS, OPEN, Decision, Look, describe
from qwenperf.stats.dependence import widening
from qwenperf.stats.pairs import log_ratio
from qwenperf.stats.spending import LEAST_PAIRS, Plan, pass_level

__all__ = ["Decision", "Plan", "decide", "judge", "outcomes"]

Array = NDArray[np.float64]


def decide(
    pairs: Mapping[str, Sequence[float]],
    margins: Mapping[str, float],
    plan: Plan,
    look: int,
    earlier: Mapping[str, Decision] | None = None,
) -> dict[str, Decision]:
    """Return the decision on every case of a comparison at ``look`` (0 is the first).

    ``pairs`` holds all cases, also those that earlier looks decided: they count in Holm's family. ``earlier`` are the
    decisions of the look before; one that is no longer inconclusive stands as it is. ``margins`` are relative and per
    case; a case that is not named has the plan's. A case may have fewer pairs than the look says (a pair was lost), and
    is inconclusive below 6; more would be a look that nobody planned.

    Raises:
      UsageError: a look that the plan does not have, or a margin that is none or of an unknown case.
      MeasurementError: no case, too many pairs, or a value that is not finite.
    """
    made = {name: decision for name, decision in (earlier or {}).items() if name in pairs and decision.final}
    found = _look(pairs, margins, plan, look, {name: decision.outcome for name, decision in made.items()})
    return {name: made[name] if name in made else describe(found[name], len(pairs), plan) for name in pairs}


def judge(pairs: Mapping[str, Sequence[float]], margins: Mapping[str, float], plan: Plan) -> dict[str, Decision]:
    """Return the decisions of all looks one after the other, on pairs that were all measured already.

    Looks that no case has new pairs for are left out, so that no pair is judged twice.
    """
    return {name: describe(found, len(pairs), plan) for name, found in _all_looks(pairs, margins, plan).items()}


def outcomes(pairs: Mapping[str, Sequence[float]], margins: Mapping[str, float], plan: Plan) -> dict[str, Outcome]:
    """Return the outcomes of ``judge`` alone, in half the time: for simulations."""
    return {name: found.outcome for name, found in _all_looks(pairs, margins, plan).items()}


def _all_looks(pairs: Mapping[str, Sequence[float]], margins: Mapping[str, float], plan: Plan) -> dict[str, Look]:
    most = max((len(case) for case in pairs.values()), default=0)
    found: dict[str, Look] = {}
    for look, count in enumerate(plan.looks):
        made = {name: seen.outcome for name, seen in found.items() if seen.outcome is not OPEN}
        if look and (most <= plan.looks[look - 1] or len(made) == len(pairs)):
            break
        found |= _look({name: case[:count] for name, case in pairs.items()}, margins, plan, look, made)
    return {name: found[name] for name in pairs}


def _look(
    pairs: Mapping[str, Sequence[float]],
    margins: Mapping[str, float],
    plan: Plan,
    look: int,
    made: Mapping[str, Outcome],
) -> dict[str, Look]:
    """Return what ``look`` finds of the cases that are not ``made`` yet."""
    _check_plan(pairs, margins, plan, look)
    values = {name: _checked(name, case, plan.looks[look]) for name, case in pairs.items()}
    wide = widening(values)
    cases = {
        name: LogRatios(values=case, averages=signs.walsh(case), widening=wide[name])
        for name, case in values.items()
        if name not in made and len(case) >= LEAST_PAIRS
    }
    # A case that failed (or improved) has used its share of alpha, and frees it; one that passed has used none.
    verdicts = list(made.values())
    slower = claims(cases, len(pairs) - verdicts.count(Outcome.FAIL), plan, look)
    mirrored = {name: case.mirrored for name, case in cases.items()}
    faster = claims(mirrored, len(pairs) - verdicts.count(Outcome.IMPROVED), plan, look)
    typical = float(np.median([case.deviation for case in cases.values()])) if cases else 0.0
    found = {}
    for name in values.keys() - made.keys():
        margin, case = margins.get(name, plan.margin), cases.get(name)
        low, high, outcome = -math.inf, math.inf, OPEN
        if case is not None:
            low, high = slower[name], _high(case, typical, pass_level(plan, look))
            outcome = _outcome(
                case.centre, low, high, -faster[name], log_ratio(margin), last=look == len(plan.looks) - 1
            )
            high = -faster[name] if outcome is Outcome.IMPROVED else high
        found[name] = Look(
            outcome=outcome, low=low, high=high, margin=margin, count=len(values[name]), look=look, case=case
        )
    return found


def _high(case: LogRatios, typical: float, level: float) -> float:
    """Return the upper bound; below 12 pairs no case is believed to be calmer than half of the others.

    Six pairs may all lie in one of two modes and look calm.
    """
    high = -case.mirrored.lower(level)
    if len(case.values) < CROSS_CHECK_PAIRS:
        high = max(high, -case.mirrored.student_lower(level, max(case.deviation, typical)))
    return high


def _outcome(estimate: float, low: float, high: float, surely_below: float, margin: float, *, last: bool) -> Outcome:
    if low > 0 and estimate >= margin:
        return Outcome.FAIL
    if surely_below < 0 and estimate <= -margin:
        return Outcome.IMPROVED
    # What may yet prove to be improved, which 6 pairs cannot prove, is not passed before the last look.
    return Outcome.PASS if high < margin and (last or estimate > -margin) else OPEN


def _check_plan(pairs: Mapping[str, object], margins: Mapping[str, float], plan: Plan, look: int) -> None:
    if not pairs:
        raise MeasurementError("there is no case to decide on.")
    if not 0 <= look < len(plan.looks):
        raise UsageError(f"look {look} is none of the plan's {len(plan.looks)}, which are counted from 0.")
    for name, margin in margins.items():
        if name not in pairs:
            raise UsageError(f"a margin is given for {name!r}, which is no case of the comparison.")
        if not (np.isfinite(margin) and margin > 0):
            raise UsageError(f"the margin of {name!r} is {margin}; it is a relative slowdown above 0.")


def _checked(name: str, case: Sequence[float], most: int) -> Array:
    values = np.asarray(case, dtype=np.float64).ravel()
    if len(values) > most:
        raise MeasurementError(
            f"{name} has {len(values)} pairs at a look of {most}.", advice="Give those that the look may see."
        )
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise MeasurementError(
            f"pair {wrong[0]} of {name} is {values[wrong[0]]}, which is not finite.",
            advice="Leave out a pair that was lost.",
        )
    return values
