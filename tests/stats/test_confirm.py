"""A fail is believed once fresh pairs say the same."""

from dataclasses import replace

import pytest

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import CONFIRM, confirm
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


def test_the_second_stage_asks_less_than_the_first():
    """Six fresh pairs and twelve that hesitate would not fail by themselves, and do confirm."""
    first = judge({"slow": SLOW}, {}, PLAN)
    fresh = {"slow": [0.06, 0.05, -0.02, 0.07, 0.04, 0.06, -0.025, 0.05, 0.08, 0.03, 0.05, -0.015]}
    assert judge(fresh, {}, PLAN)["slow"].outcome is Outcome.INCONCLUSIVE
    assert confirm(first, fresh)["slow"].outcome is Outcome.FAIL
    assert confirm(first, fresh, PLAN)["slow"].outcome is Outcome.INCONCLUSIVE


def test_each_case_is_confirmed_by_the_margin_that_it_failed_by():
    """And not by that of the second plan: fresh pairs at +4% repeat a fail by 3% and none by 8%."""
    first = judge({"strict": SLOW, "lenient": SLOW}, {"lenient": 0.08}, PLAN)
    fresh = [0.04 + 0.001 * (-1) ** index for index in range(20)]
    found = confirm(first, {"strict": fresh, "lenient": fresh}, replace(CONFIRM, margin=0.2))
    assert {name: two.outcome for name, two in found.items()} == {
        "strict": Outcome.FAIL,
        "lenient": Outcome.INCONCLUSIVE,
    }


def test_fresh_pairs_so_far_are_judged_so_far():
    """Six cannot prove a fail and leave it open; with twelve it is final, at the second look."""
    first = judge({"slow": SLOW}, {}, PLAN)
    six, twelve = (confirm(first, {"slow": SLOW[:count]})["slow"].second for count in (6, 12))
    assert (six.final, six.look) == (False, 0)
    assert (twelve.final, twelve.look) == (True, 1)
