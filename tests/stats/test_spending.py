"""How errors are shared out over looks and cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.sequential import outcomes
from qwenperf.stats.spending import Plan, can_fail, fail_level, least_last, pass_level

looks = st.lists(st.integers(6, 60), min_size=1, max_size=5, unique=True).map(sorted).map(tuple)


@given(looks, st.floats(1e-4, 0.2), st.integers(1, 30))
def test_looks_spend_no_more_than_a_case_has(times, alpha, cases):
    """Only looks whose signs can reach their level spend; together they spend alpha at most."""
    plan = Plan(looks=times, alpha=alpha)
    levels = [fail_level(plan, look, 1 / cases) for look in range(len(times))]
    spent = sum(level for level, pairs in zip(levels, times, strict=True) if 0.5**pairs <= level)
    assert spent <= alpha / cases * (1 + 1e-9)
    assert min(levels) >= 0


@given(looks, st.floats(1e-3, 0.2))
def test_passing_spends_all_of_its_error_and_no_more(times, error):
    """In proportion to the pairs."""
    plan = Plan(looks=times, pass_error=error)
    assert sum(pass_level(plan, look) for look in range(len(times))) == pytest.approx(error)


def test_six_pairs_leave_what_their_signs_cannot_reach_to_twelve():
    """And 12 of 20 pairs may just fail one of ten cases: all signs alike."""
    levels = [fail_level(Plan(), look, 1 / 10) for look in range(3)]
    assert levels[0] < 2**-6
    assert 2**-12 <= levels[1] < 2 * 2**-12
    assert levels[1] + levels[2] == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("times", "alpha", "cases", "can"),
    [
        ((6, 12, 20), 0.01, 1, True),
        ((6, 12, 20), 0.01, 10, True),
        ((6, 12, 20), 0.05, 10, True),
        ((6,), 0.01, 1, False),
        ((6,), 0.05, 1, True),
        ((6, 8), 0.01, 1, True),
        ((6, 8), 0.01, 10, False),
        ((9,), 0.01, 10, False),
        ((10,), 0.01, 10, True),
    ],
)
def test_a_plan_can_fail_a_case_if_its_signs_can_be_rare_enough(times, alpha, cases, can):
    """As is seen of pairs that are all of them half as slow again, the others unchanged."""
    plan = Plan(looks=times, alpha=alpha)
    assert can_fail(plan, cases) is can
    pairs = {"slow": [0.4 + 0.001 * index for index in range(times[-1])]}
    pairs |= {f"case {index}": [0.001 * (-1) ** pair for pair in range(times[-1])] for index in range(cases - 1)}
    assert (outcomes(pairs, {}, plan)["slow"] is Outcome.FAIL) is can


def test_the_pairs_that_a_last_look_needs_are_counted():
    """The least with which the plan can fail, and its own where it can."""
    assert least_last(Plan(), 10) == 20
    assert least_last(Plan(looks=(6,)), 1) == 7
    assert least_last(Plan(looks=(6, 8)), 10) == 10


def test_no_case_is_no_plan():
    """Nothing could be shared among them."""
    with pytest.raises(UsageError, match="0 cases"):
        can_fail(Plan(), 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"looks": (12, 6)}, "do not rise"),
        ({"looks": ()}, "do not rise"),
        ({"looks": (3, 12)}, "from 6 pairs"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"pass_error": 1.0}, "pass_error is 1"),
        ({"margin": 0.0}, "margin is 0"),
        ({"margin": float("nan")}, "margin is nan"),
    ],
)
def test_a_plan_that_nobody_can_follow_is_refused(wrong, said):
    """Before anything is measured."""
    with pytest.raises(UsageError, match=said):
        Plan(**wrong)
