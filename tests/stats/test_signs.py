"""Ranks and flips of signs against counting all of them."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.stats import signs

values = st.lists(st.floats(-10, 10), min_size=1, max_size=9)


def flipped(sizes):
    return [np.asarray(coins) * sizes for coins in product([-1, 1], repeat=len(sizes))]


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_the_tail_of_the_ranks_is_that_of_all_coins(count):
    """Counted one by one."""
    sums = [sum(rank for rank, coin in enumerate(coins, 1) if coin) for coins in product([0, 1], repeat=count)]
    expected = [np.mean([total <= w for total in sums]) for w in range(count * (count + 1) // 2 + 1)]
    np.testing.assert_allclose(signs.rank_tail(count), expected)


@settings(max_examples=40)
@given(values)
def test_the_share_of_flips_is_that_of_all_flips(numbers):
    """Joined halves count every flip once, the observed one included."""
    array = np.asarray(numbers)
    slack = 1e-9 * np.abs(array).sum()
    expected = np.mean([flip.sum() >= array.sum() - slack for flip in flipped(np.abs(array))])
    assert signs.flip_p(array) == pytest.approx(expected, abs=1e-12)


def test_many_flips_are_sampled_and_stay_near_the_truth():
    """Beyond 32 pairs no machine counts them all; a sample never says 0."""
    array = np.concatenate([np.full(20, 1.0), np.full(20, -1.0)])
    assert signs.flip_p(array) == pytest.approx(0.5627, abs=0.01)
    assert signs.flip_p(np.ones(40)) > 0


def test_hundreds_of_pairs_take_no_gigabytes():
    """Whoever asks for very many pairs must not be ended by the test that only confirms them."""
    values = np.random.default_rng(1).normal(0.02, 0.1, 300)
    tracemalloc.start()
    try:
        share = signs.flip_p(values)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()
    assert 0 < share < 0.05


@settings(max_examples=40)
@given(st.lists(st.floats(0.001, 10), min_size=5, max_size=9, unique=True), st.floats(0.04, 0.3))
def test_a_bound_is_above_the_centre_no_more_often_than_its_level(sizes, level):
    """Over every sign that these sizes may have, the centre being 0."""
    array = np.asarray(sizes)
    above = np.mean([signs.lower_bound(signs.walsh(flip), len(array), level) > 0 for flip in flipped(array)])
    assert above <= level + 1e-12


@settings(max_examples=40)
@given(values, st.floats(-5, 5))
def test_a_bound_moves_with_the_values(numbers, shift):
    """It is a place, and no function of where 0 is."""
    array = np.asarray(numbers)
    bound = signs.lower_bound(signs.walsh(array), len(array), 0.6)
    assert signs.lower_bound(signs.walsh(array + shift), len(array), 0.6) == pytest.approx(bound + shift, abs=1e-9)


def test_what_signs_cannot_reach_has_no_bound():
    """Six signs show 1/64 and nothing rarer."""
    averages = signs.walsh(np.arange(1.0, 7.0))
    assert signs.lower_bound(averages, 6, 1 / 64) == 1.0
    assert signs.lower_bound(averages, 6, 1 / 65) == -np.inf
    assert signs.rank_p(averages, 6) == 1 / 64
    assert signs.rank_p(signs.walsh(np.full(6, -1.0)), 6) == 1.0
    assert signs.rank_p(signs.walsh(np.zeros(6)), 6) == 1.0
