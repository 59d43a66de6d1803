"""A fail is believed once fresh pairs say the same."""

import pytest

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import confirm, joint_false_alarm
from qwenperf.stats.sequential import Plan, judge

PLAN = Plan()
SLOW = [0.1 + 0.001 * index for index in range(20)]
SAME = [0.001 * (-1) ** index for index in range(20)]


def test_a_fail_that_fresh_pairs_repeat_is_confirmed_and_both_stages_are_kept():
    """Whoever reads it sees both."""
    first = judge({"slow": SLOW, "same": SAME}, {"slow": 0.05}, PLAN)
    found = confirm(first, {"slow": SLOW[::-1]}, PLAN)
    assert list(found) == ["slow"]
    assert found["slow"].outcome is Outcome.FAIL
    assert found["slow"].first is first["slow"]
    assert found["slow"].second.margin == 0.05


def test_a_fail_that_fresh_pairs_do_not_repeat_is_inconclusive_and_no_pass():
    """The stages disagree, and nobody knows which was the accident."""
    found = confirm(judge({"slow": SLOW}, {}, PLAN), {"slow": SAME}, PLAN)["slow"]
    assert (found.outcome, found.second.outcome) == (Outcome.INCONCLUSIVE, Outcome.PASS)


@pytest.mark.parametrize("fresh", [{}, {"same": SAME}, {"slow": SLOW, "same": SAME}])
def test_only_what_failed_is_confirmed_and_all_of_it(fresh):
    """A second try for others would be a second chance."""
    first = judge({"slow": SLOW, "same": SAME}, {}, PLAN)
    with pytest.raises(UsageError, match="slow failed"):
        confirm(first, fresh, PLAN)


def test_without_a_fail_there_is_nothing_to_confirm():
    """And nothing to measure."""
    assert confirm(judge({"same": SAME}, {}, PLAN), {}, PLAN) == {}


def test_the_joint_false_alarm_is_that_of_both_stages():
    """Of independent noise."""
    assert joint_false_alarm(PLAN) == pytest.approx(1e-4)
