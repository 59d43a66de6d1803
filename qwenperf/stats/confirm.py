"""Stage two: a fail is believed once fresh pairs, each in an order by a new lot, say the same. Both stages are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.sequential import Decision, judge
from qwenperf.stats.spending import Plan

CONFIRM = Plan(alpha=0.05)
"""The second stage. The first alone keeps its 1%; this one catches trouble that has passed meanwhile, and must not cost
more sight than that takes."""


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Both stages of a case that failed; ``outcome`` is fail where both agree, and inconclusive otherwise."""

    outcome: Outcome
    first: Decision
    second: Decision


def confirm(
    first: Mapping[str, Decision], fresh: Mapping[str, Sequence[float]], plan: Plan = CONFIRM
) -> dict[str, Confirmation]:
    """Judge the fails among ``first`` again, on the ``fresh`` pairs of those cases alone.

    ``plan`` is the second stage's own: its looks and its alpha, whose family are the cases that failed. Its margin is
    not used, for each case keeps the one that it failed by. ``fresh`` may hold what is measured so far: looks are
    judged one after the other as far as there are pairs, so the caller can stop once every ``second`` is final.

    If the noise of the stages is independent, a comparison of unchanged code has any confirmed fail with a chance of
    the first plan's alpha times this one's: 0.05% of 1% and 5%. A trouble that lasts through both leaves the first.

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
