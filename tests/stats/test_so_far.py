"""The interval that is shown while pairs are measured."""

import math

import numpy as np
import pytest

from qwenperf.stats.so_far import so_far


def test_one_pair_has_no_interval():
    """Nor has none."""
    assert so_far([]) is None
    assert so_far([0.1]) is None


def test_equal_pairs_leave_no_doubt():
    """In relative differences."""
    assert so_far([math.log(1.1)] * 5) == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize("count", [3, 8])
def test_it_holds_the_truth_in_about_95_of_100(count):
    """By Student's t for few pairs, by ranks from 6 on."""
    rows = np.random.default_rng(1).normal(0.02, 0.05, size=(2000, count))
    held = sum(low <= math.expm1(0.02) <= high for _, low, high in map(so_far, rows.tolist()))
    assert 0.93 <= held / len(rows) <= 0.99
