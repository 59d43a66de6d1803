"""One pair's estimate: the median log ratio of its rounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.errors import MeasurementError
from qwenperf.stats.pairs import estimate, log_ratio, relative

times = st.floats(1e-6, 1e6)
rounds = st.lists(st.tuples(times, times), min_size=1, max_size=15)


def test_the_estimate_is_the_median_over_rounds_of_wall_and_of_cpu_time():
    """One stalled round moves neither."""
    found = estimate([1.0, 2.0, 1.0], [1.1, 2.2, 50.0], [1.0, 1.0, 1.0], [1.0, 1.2, 1.2])
    assert found.wall == pytest.approx(math.log(1.1))
    assert found.cpu == pytest.approx(math.log(1.2))
    assert (found.rounds, found.missing) == (3, 0)


def test_a_round_that_one_side_lost_counts_on_neither():
    """What is left is still compared round by round."""
    found = estimate([1.0, None, 4.0], [2.0, 9.0, 8.0])
    assert found.wall == pytest.approx(math.log(2))
    assert (found.rounds, found.missing, found.cpu) == (2, 1, None)


@given(rounds)
def test_swapping_head_and_base_turns_the_sign(pairs):
    """Otherwise one side would be favoured."""
    base, head = zip(*pairs, strict=True)
    assert estimate(base, head).wall == pytest.approx(-estimate(head, base).wall, abs=1e-9)


@given(rounds, st.floats(0.5, 2))
def test_a_slowdown_of_every_round_is_found_whole(pairs, factor):
    """On top of whatever the noise says."""
    base, head = zip(*pairs, strict=True)
    slower = [time * factor for time in head]
    assert estimate(base, slower).wall == pytest.approx(estimate(base, head).wall + math.log(factor), abs=1e-9)


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        ([1.0, 0.0], [1.0, 1.0], "wall time of base in round 1 is 0"),
        ([1.0], [math.nan], "wall time of head in round 0 is nan"),
        ([1.0], [math.inf], "is inf"),
        ([1.0], [-1.0], "is -1"),
        ([1.0, 1.0], [1.0], "2 rounds of wall time on base and 1 on head"),
        ([None, 1.0], [1.0, None], "none of the 2 rounds"),
        ([], [], "none of the 0 rounds"),
    ],
)
def test_what_is_no_time_is_refused_by_side_and_round(base, head, said):
    """Nothing is dropped in silence."""
    with pytest.raises(MeasurementError, match=said):
        estimate(base, head)


def test_cpu_time_of_one_side_is_refused():
    """It compares with nothing."""
    with pytest.raises(MeasurementError, match="on base only"):
        estimate([1.0], [1.0], [1.0])


@given(st.floats(-0.9, 10))
def test_log_ratios_and_relative_differences_are_inverse(difference):
    """For people 5% is 5% slower, and not 4.9%."""
    assert relative(log_ratio(difference)) == pytest.approx(difference, abs=1e-12)


def test_a_difference_of_less_than_all_is_refused():
    """No time is negative."""
    with pytest.raises(MeasurementError, match=r"-1.5"):
        log_ratio(-1.5)
