"""Quantiles of t against tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.stats import student


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [
        (0.25, 1, 1.0),
        (0.05, 1, 6.3138),
        (0.05, 2, 2.91999),
        (0.005, 5, 4.03214),
        (0.01, 11, 2.71808),
        (0.001, 19, 3.5794),
    ],
)
def test_quantiles_are_those_of_the_tables(level, freedom, expected):
    """Odd and even degrees of freedom have different sums."""
    assert student.quantile(level, freedom) == pytest.approx(expected, rel=1e-4)


@given(st.floats(1e-6, 0.5), st.integers(1, 60))
def test_a_quantile_is_exceeded_with_its_level(level, freedom):
    """The bisection ends where the sums say."""
    assert student.upper_tail(student.quantile(level, freedom), freedom) == pytest.approx(level, rel=1e-4, abs=1e-12)
