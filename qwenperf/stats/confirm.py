"""Stage two: a fail is believed once fresh pairs, measured in another order, say the same. Both stages are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.sequential import Decision, judge
from qwenperf.stats.spending import Plan


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Both stages of a case that failed; ``outcome`` is fail where both agree, and inconclusive otherwise."""

    outcome: Outcome
    first: Decision
    second: Decision


def confirm(first: Mapping[str, Decision], fresh: Mapping[str, Sequence[float]], plan: Plan) -> dict[str, Confirmation]:
    """Judge the fails among ``first`` again, on the ``fresh`` pairs of those cases alone and with their margins.

    The second stage has the same plan; its family are the cases that failed.

    Raises:
      UsageError: fresh pairs of a case that did not fail, or none of one that did.
    """
    failed = {name: decision for name, decision in first.items() if decision.outcome is Outcome.FAIL}
    if failed.keys() != fresh.keys():
        were, are = (", ".join(sorted(names)) or "no case" for names in (failed, fresh))
        raise UsageError(
            f"{were} failed, and fresh pairs are there of {are}.",
            advice="Measure each case that failed again, and no other.",
        )
    if not failed:
        return {}
    second = judge(fresh, {name: decision.margin for name, decision in failed.items()}, plan)
    return {
        name: Confirmation(
            outcome=Outcome.FAIL if second[name].outcome is Outcome.FAIL else Outcome.INCONCLUSIVE,
            first=decision,
            second=second[name],
        )
        for name, decision in failed.items()
    }


def joint_false_alarm(plan: Plan) -> float:
    """Return the chance that a comparison of unchanged code has any confirmed fail: alpha squared.

    It takes the noise of the two stages as independent. If one trouble lasts through both, alpha alone holds.
    """
    return plan.alpha**2
