"""Changes of numbers without noise, and histories that stop."""

import numpy as np
import pytest

from qwenperf.stats.history_exact import exact_changes
from qwenperf.stats.history_known import change_at
from qwenperf.stats.history_stale import stale

DAY = 86400.0


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([4, 4, 4, 5, 5, 5], [3]),
        ([5, 5, 4, 4], [2]),
        ([4, 4, 9, 4, 4], []),
        ([4, 4, 4, 4, 9], []),
        ([9, 4, 4, 4, 4], []),
        ([0, 0, 0, 0], []),
        ([1, 1, 2, 2, 1, 1], [2, 4]),
        ([4, 4, 4, 5, 4, 5, 5, 5], [5]),
        ([1, 1, 1, 3, 1, 2, 2, 2], [5]),
        ([4, 5, 4, 5, 4, 5], []),
        ([], []),
    ],
)
def test_a_new_value_that_stays_is_a_step(values, steps):
    """A lone one, or one at an end, is none; one that came back stays where it came back."""
    assert exact_changes(np.asarray(values, dtype=float)) == (steps, [])


def test_growth_at_every_point_is_one_drift():
    """And not a regression a commit."""
    steps, drifts = exact_changes(np.asarray([1, 1, 1, 2, 3, 4, 5, 6, 6, 6], dtype=float))
    assert steps == []
    assert drifts == [(2, 7)]


def test_a_change_at_a_known_place_is_tested_once():
    """With its size; where nothing happens, noise is told as noise."""
    values = np.random.default_rng(2).normal(size=60)
    change, p = change_at(values + 3 * (np.arange(60) >= 20), 20)
    assert change == pytest.approx(3, abs=0.8)
    assert p < 0.001
    assert change_at(values, 20)[1] > 0.01
    assert change_at(values, 1) == (0.0, 1.0)
    assert change_at(np.repeat([0.0, 1.0], 10), 10) == (pytest.approx(1), 0.0)


def test_a_history_of_week_days_is_not_stale_on_monday():
    """It is after three week-ends' time without a point."""
    days = [week * 7 + day for week in range(6) for day in range(5)]
    times = [day * DAY for day in days]
    assert stale(times, times[-1] + 3 * DAY) is None
    assert stale(times, times[-1] + 8.9 * DAY) is None
    found = stale(times, times[-1] + 10 * DAY)
    assert found.age_s == 10 * DAY
    assert found.expected_s == pytest.approx(9 * DAY)
    assert found.typical_s == DAY


def test_many_points_of_one_hour_are_one():
    """A bisection measures ten commits in an hour: an hour later nothing is late."""
    assert stale([minute * 60.0 for minute in range(30)], 2 * 3600.0) is None


def test_few_points_say_nothing_of_the_next():
    """No alarm is better than a false one."""
    assert stale([0.0, DAY, 2 * DAY], 100 * DAY) is None
    assert stale([], 100 * DAY) is None
