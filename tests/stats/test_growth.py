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
