"""One case's bounds, and Holm's steps over the cases."""

import numpy as np
import pytest

from qwenperf.stats import signs, student
from qwenperf.stats.bounds import LogRatios, claims
from qwenperf.stats.spending import Plan, fail_level


def case_of(values, widening=1.0):
    array = np.asarray(values, dtype=float)
    return LogRatios(values=array, averages=signs.walsh(array), widening=widening)


def test_the_centre_is_the_median_of_the_averages_of_all_two_pairs():
    """One wild pair of five moves it little."""
    assert case_of([0.0, 1.0, 2.0, 3.0, 1000.0]).centre == 2.0
    assert case_of([0.0, 1.0]).centre == 0.5


def test_a_bound_is_of_ranks_where_they_reach_its_level_and_of_t_below():
    """Six pairs reach 1/64."""
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7]
    case = case_of(values)
    assert case.lower(1 / 64) == pytest.approx(0.1)
    distance = student.quantile(0.01, 5) * np.std(values, ddof=1) / 6**0.5
    assert case.lower(0.01) == pytest.approx(case.centre - distance)


def test_a_widened_bound_is_as_many_times_further_from_the_centre():
    """On the side of ranks and on that of t."""
    values = np.random.default_rng(1).normal(size=20)
    plain, wide = case_of(values), case_of(values, widening=1.5)
    for level in (0.01, 1e-9):
        assert plain.centre - wide.lower(level) == pytest.approx(1.5 * (plain.centre - plain.lower(level)))


def test_holm_gives_the_second_case_what_the_first_frees_and_stops_at_the_first_that_claims_nothing():
    """As if each were judged at the level of its step."""
    random = np.random.default_rng(2)
    cases = {name: case_of(centre + 0.1 * random.normal(size=20)) for name, centre in (("a", 1), ("b", 0.5), ("c", 0))}
    found = claims(cases, 3, Plan(), 2)
    assert found["a"] == cases["a"].lower(fail_level(Plan(), 2, 1 / 3)) > 0
    assert found["b"] == cases["b"].lower(fail_level(Plan(), 2, 1 / 2)) > 0
    assert found["c"] == cases["c"].lower(fail_level(Plan(), 2, 1)) < 0


def test_nothing_is_claimed_that_signs_cannot_prove():
    """However far from 0 six pairs lie."""
    assert claims({"a": case_of([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])}, 1, Plan(), 0) == {"a": 0.0}


def test_nothing_is_claimed_that_sign_flips_do_not_agree_with():
    """Two wild pairs on the other side leave the ranks nearly as they were, and the mean nowhere."""
    values = [*np.linspace(0.05, 0.1, 18), -3.0, -3.0]
    case = case_of(values)
    assert case.lower(fail_level(Plan(), 2)) > 0.04
    assert case.flips > Plan().alpha
    assert claims({"a": case}, 1, Plan(), 2)["a"] <= 0
