"""How much neighbouring pairs that resemble each other widen an interval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.stats.dependence import lag_one, widening
from qwenperf.stats.noise import pair_noise


def mean_widening(kind, cases, *, by_lot):
    random = np.random.default_rng(21)
    drawn = [pair_noise(kind, random, cases=cases, pairs=20, sd=0.05, by_lot=by_lot) for _ in range(100)]
    return float(np.mean([list(widening(dict(enumerate(noise))).values()) for noise in drawn]))


def test_independent_pairs_are_hardly_widened():
    """Ten cases tell together that there is nothing."""
    assert mean_widening("iid", 10, by_lot=True) < 1.1


def test_correlated_pairs_are_widened_by_what_their_correlation_costs():
    """A correlation of 0.5 costs the square root of 3."""
    assert mean_widening("autoregressive", 10, by_lot=False) == pytest.approx(3**0.5, abs=0.2)


def test_the_lot_takes_the_correlation_out():
    """The order of each pair turns the sign of what lasts."""
    assert mean_widening("autoregressive", 10, by_lot=True) < 1.1


def test_the_correlation_is_freed_of_its_bias():
    """A plain estimate of 0 from 20 pairs is -0.05 in the mean."""
    random = np.random.default_rng(4)
    assert np.mean(lag_one(random.normal(size=(3000, 20)))) == pytest.approx(0, abs=0.02)


def test_equal_pairs_say_nothing():
    """No division by nothing."""
    assert np.isnan(lag_one(np.full((1, 20), 0.1))).all()
    assert widening({"a": np.full(20, 0.1), "b": np.asarray([1.0])}) == {"a": 1.0, "b": 1.0}


rows = st.lists(st.floats(-1, 1, allow_nan=False), min_size=2, max_size=20).map(np.asarray)


@given(st.dictionaries(st.sampled_from("abcd"), rows, min_size=1))
@settings(max_examples=80, deadline=None)
def test_an_interval_is_never_narrowed_nor_widened_without_end(cases):
    """By 1 to 3, for every case, whatever was seen; and by as much where head and base are swapped."""
    found = widening(cases)
    assert found.keys() == cases.keys()
    assert all(1 <= factor <= 3 + 1e-9 for factor in found.values())
    assert widening({name: -values for name, values in cases.items()}) == pytest.approx(found)
