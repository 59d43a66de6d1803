"""What would settle an inconclusive verdict."""

import numpy as np
import pytest

from qwenperf.stats import signs
from qwenperf.stats.advice import settle
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.spending import Plan

PLAN = Plan()


def case_of(centre, sd, *, count=20, widening=1.0):
    values = np.random.default_rng(3).normal(size=count)
    values = centre + sd * (values - values.mean()) / values.std(ddof=1)
    return LogRatios(values=values, averages=signs.walsh(values), widening=widening)


def advice(case, look=2, modes=()):
    return settle(case, 0.03, cases=1, plan=PLAN, look=look, modes=modes)


def test_before_the_last_look_more_pairs_are_measured_anyway():
    """Of how many."""
    assert advice(case_of(0.0, 0.1, count=12), look=1) == "more pairs: 12 of 20 are measured"


@pytest.mark.parametrize("centre", [0.01, 0.05])
def test_after_it_the_pairs_that_would_do_are_counted(centre):
    """For a case that looks unchanged as for one that looks slower; more than were measured."""
    found = advice(case_of(centre, 0.1))
    pairs = int(found.removeprefix("about ").split()[0])
    assert 20 < pairs <= 200
    assert "or pairs that deviate by" in found


def test_where_nobody_would_wait_for_them_a_quieter_machine_is_advised():
    """An estimate at the very margin settles nothing."""
    assert advice(case_of(0.028, 0.1)).startswith("a quieter machine or pinned processes")


def test_modes_and_neighbours_have_advice_of_their_own():
    """Because more pairs alone do not help."""
    found = advice(case_of(0.01, 0.1, widening=1.5), modes=(-0.1, 0.1))
    assert "two modes, at -10.0% and +10.0%: pin" in found
    assert "widens the interval 1.5 times" in found
