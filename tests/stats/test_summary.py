import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.errors import MeasurementError
from qwenperf.stats.summary import median, percentile, summarize, theil_sen

finite = st.floats(-1e6, 1e6)
readings = st.lists(finite, min_size=1, max_size=30)
quick = settings(deadline=None, max_examples=100)


@quick
@given(readings)
def test_median_agrees_with_the_standard_library(values):
    """The middle is the middle."""
    assert median(values) == pytest.approx(statistics.median(values))


@quick
@given(readings, st.floats(0, 100))
def test_a_percentile_lies_between_two_readings_and_grows(values, percent):
    """Percentiles are ordered and never leave the readings."""
    low, high = percentile(values, percent / 2), percentile(values, percent)
    assert min(values) <= low <= high + 1e-6
    assert high <= max(values) + 1e-6


def test_percentile_interpolates():
    """The 99th of 0..100 is 99, the 50th of two readings their mean."""
    assert percentile(list(range(101)), 99) == 99
    assert percentile([1.0, 3.0], 50) == 2


@pytest.mark.parametrize(
    ("count", "depth", "coverage"),
    [(1, 0, 0), (2, 0, 0.5), (3, 0, 0.75), (4, 0, 0.875), (5, 0, 0.9375), (6, 0, 0.96875), (9, 1, 0.9609375)],
)
def test_few_readings_have_the_coverage_that_they_have(count, depth, coverage):
    """Below 6 readings no interval of 95% exists, and none is claimed."""
    summary = summarize([float(value) for value in range(count)])
    assert (summary.low, summary.high) == (depth, count - 1 - depth)
    assert summary.coverage == pytest.approx(coverage)


@pytest.mark.parametrize("count", [1023, 1100, 5000])
def test_thousands_of_readings_have_an_interval(count):
    """As wide as a normal distribution says, where 2 to the power of the count is no float."""
    summary = summarize(range(count))
    assert 0.95 <= summary.coverage < 0.96
    assert summary.low + summary.high == count - 1
    assert summary.high - summary.low == pytest.approx(1.96 * math.sqrt(count), rel=0.06)


@quick
@given(readings, st.randoms())
def test_the_summary_does_not_depend_on_the_order(values, random):
    """Readings are a set; the interval holds the median."""
    shuffled = list(values)
    random.shuffle(shuffled)
    assert summarize(values) == summarize(shuffled)
    assert summarize(values).low <= summarize(values).median <= summarize(values).high


@pytest.mark.parametrize("count", [5, 11, 25])
def test_the_interval_of_the_median_covers_as_often_as_it_says(count):
    """Over 4,000 skewed samples the share of hits is the stated coverage."""
    draws = np.random.default_rng(7).lognormal(size=(4000, count))
    summaries = [summarize(draw) for draw in draws]
    hits = np.mean([summary.low <= 1.0 <= summary.high for summary in summaries])
    assert hits == pytest.approx(summaries[0].coverage, abs=0.015)
    assert summaries[0].coverage >= min(0.95, 1 - 2 * 0.5**count)


@quick
@given(st.floats(-100, 100), st.floats(-100, 100), st.integers(3, 30))
def test_the_slope_of_a_line_is_found_exactly(slope, intercept, count):
    """Points on a line give that line and an interval without width."""
    x = np.arange(count, dtype=float)
    found = theil_sen(x, slope * x + intercept)
    for value in (found.slope, found.low, found.high):
        assert value == pytest.approx(slope, abs=1e-9)
    assert found.intercept == pytest.approx(intercept, abs=1e-6)


def test_wild_points_do_not_move_the_slope():
    """A quarter of the points a thousand times too high leaves a flat line flat."""
    x = np.arange(40.0)
    y = np.ones(40)
    y[::4] = 1000
    assert theil_sen(x, y).slope == 0


@pytest.mark.parametrize("count", [10, 40])
def test_the_interval_of_the_slope_covers_as_often_as_it_says(count):
    """Over 500 noisy lines the true slope lies inside in about 95%."""
    generator = np.random.default_rng(3)
    x = np.arange(float(count))
    found = [theil_sen(x, 0.5 * x + generator.normal(size=count)) for _ in range(500)]
    assert np.mean([line.low <= 0.5 <= line.high for line in found]) >= 0.92


@pytest.mark.parametrize("count", [3, 4, 6])
def test_the_interval_of_few_points_covers_as_often_as_it_says(count):
    """Over 4,000 noisy lines, also where no interval of 95% exists."""
    generator = np.random.default_rng(5)
    x = np.arange(float(count))
    found = [theil_sen(x, 0.5 * x + generator.normal(size=count)) for _ in range(4000)]
    hits = np.mean([line.low <= 0.5 <= line.high for line in found])
    assert hits == pytest.approx(found[0].coverage, abs=0.02)


def test_equal_positions_give_no_slope_of_their_own():
    """Pairs with the same x are left out; repeated readings are welcome."""
    assert theil_sen([0, 0, 1, 1], [1, 1, 3, 3]).slope == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: median([]), "no reading"),
        (lambda: summarize([1.0, math.nan]), "reading 1 of 2 is nan"),
        (lambda: percentile([math.inf], 50), "reading 0 of 1 is inf"),
        (lambda: theil_sen([1, 2], [1, 2]), "needs 3 points or more, and has 2 x and 2 y"),
        (lambda: theil_sen([1, 2, 3], [1, 2]), "has 3 x and 2 y"),
        (lambda: theil_sen([1, 1, 1], [1, 2, 3]), "all are 1"),
    ],
)
def test_what_cannot_be_summarised_is_refused(call, message):
    """An empty series or a NaN never becomes a number."""
    with pytest.raises(MeasurementError, match=message):
        call()
