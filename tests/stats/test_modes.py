"""Two modes in the pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert modes(np.where(np.arange(20) < 6, 0.1, np.nextafter(0.1, 1.0))) == ()  # rounding between equal ones


ratios = st.lists(st.floats(-1, 1, allow_nan=False).map(lambda value: round(value, 4)), min_size=12, max_size=20)


@given(ratios)
@settings(max_examples=60, deadline=None)
def test_modes_lie_among_the_pairs_and_grow_with_them(values):
    """Two or none, the lower one first, each within what was seen; twice the differences have twice the modes."""
    found = modes(np.asarray(values))
    assert len(found) in {0, 2}
    if found:
        assert min(values) <= found[0] < found[1] <= max(values)
    assert modes(2 * np.asarray(values)) == tuple(2 * one for one in found)
