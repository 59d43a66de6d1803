import numpy as np
import pytest

from qwenperf.stats.growth import growth


def test_growth_is_relative_to_the_median_step_and_keeps_its_coverage():
    """One percent a position is 100% per 100; five points say the coverage that they have."""
    steps = tuple(1.0 + 0.01 * step for step in range(-2, 3))
    seen = growth(range(10, 15), (steps, steps))
    assert seen.per_100 == pytest.approx(1.0)
    assert seen.by_trial == pytest.approx((1.0, 1.0))
    assert seen.coverage == pytest.approx(1 - 2 / 120)


@pytest.mark.parametrize(("positions", "steps"), [((1, 2), ((1.0, 1.0),)), ((1, 2, 3), ()), ((1, 2, 3), ((0.0,) * 3,))])
def test_too_little_has_no_growth(positions, steps):
    """Two points, no trial, no time."""
    assert growth(positions, steps) is None


def test_many_steps_of_an_engine_that_hands_over_two_tokens_at_once():
    """Whichever of each two is the slow one: 1% a 100 positions, of the mean step."""
    positions = np.arange(1000)
    growing = 0.01 * (1 + 0.0001 * positions)
    for phase in (0, 1):
        found = growth(positions.tolist(), [(growing * np.where(positions % 2 == phase, 1.99, 0.01)).tolist()] * 3)
        assert found.median_s == pytest.approx(0.0105, rel=0.01)
        assert found.per_100 == pytest.approx(0.01 / 1.05, rel=0.05)


def test_a_clock_that_stands_still_for_most_steps_tells_no_growth():
    """Each third step took no time that the clock could tell: it is averaged, and where most did, nothing is said."""
    positions = list(range(1200))
    assert growth(positions, [[0.0 if one % 3 == 0 else 0.01 for one in positions]] * 3) is not None
    assert growth(positions, [[0.01 if one % 7 == 0 else 0.0 for one in positions]] * 3) is None
