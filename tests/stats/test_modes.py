"""Two modes in the pairs."""

import numpy as np
import pytest

from qwenperf.stats.modes import FALSE_ALARM, modes


@pytest.mark.parametrize("count", [12, 20])
def test_two_groups_are_named_by_their_centres(count):
    """Lower one first."""
    random = np.random.default_rng(3)
    values = np.where(np.arange(count) % 3 == 0, 0.10, -0.02) + 0.004 * random.normal(size=count)
    assert modes(values) == pytest.approx((-0.02, 0.10), abs=0.005)


@pytest.mark.parametrize("count", [12, 20])
def test_one_normal_group_is_called_two_as_often_as_stated(count):
    """Within what 2,000 samples can tell."""
    random = np.random.default_rng(11)
    alarms = sum(bool(modes(random.normal(size=count))) for _ in range(2000))
    assert alarms / 2000 == pytest.approx(FALSE_ALARM, abs=0.008)


def test_one_wild_pair_is_no_mode():
    """A mode is a fifth of the pairs at least."""
    values = np.random.default_rng(5).normal(size=20) * 0.01
    values[3] = 1.0
    assert modes(values) == ()


def test_few_pairs_and_equal_pairs_have_no_two_modes():
    """Nothing can be told from them."""
    assert modes(np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])) == ()
    assert modes(np.zeros(20)) == ()
