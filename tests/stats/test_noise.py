"""Synthetic noise is what it says."""

import numpy as np
import pytest

from qwenperf.errors import UnknownNameError, UsageError
from qwenperf.stats.noise import KINDS, order_signs, pair_noise, replay


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_lot", [True, False])
def test_noise_has_mean_0_and_the_asked_deviation(kind, by_lot):
    """Over many cases; a seed gives the same noise again."""
    drawn = [
        pair_noise(kind, np.random.default_rng(8), cases=20_000, pairs=20, sd=0.05, by_lot=by_lot) for _ in range(2)
    ]
    np.testing.assert_array_equal(*drawn)
    assert drawn[0].shape == (20_000, 20)
    assert drawn[0].mean() == pytest.approx(0, abs=0.001)
    assert drawn[0].std() == pytest.approx(0.05, rel=0.03)


def test_orders_are_balanced_within_each_two_pairs():
    """Either side is started first once."""
    drawn = order_signs(np.random.default_rng(2), 21)
    assert drawn[:20].reshape(10, 2).sum(axis=1).tolist() == [0.0] * 10
    assert len(drawn) == 21
    assert set(drawn.tolist()) == {-1.0, 1.0}


def test_a_replay_draws_recorded_sizes_with_either_sign():
    """Half and half."""
    drawn = replay([0.1, 0.2], np.random.default_rng(2), cases=500, pairs=20)
    assert set(np.abs(drawn).ravel().tolist()) == {0.1, 0.2}
    assert (drawn > 0).mean() == pytest.approx(0.5, abs=0.02)


def test_what_cannot_be_drawn_is_refused():
    """With the nearest name."""
    random = np.random.default_rng(0)
    with pytest.raises(UnknownNameError, match="bimodal"):
        pair_noise("bimodel", random, cases=1, pairs=6, sd=0.1)
    with pytest.raises(UsageError, match="deviation of -1"):
        pair_noise("iid", random, cases=1, pairs=6, sd=-1)
    with pytest.raises(UsageError, match="cannot be replayed"):
        replay([], random, cases=1, pairs=6)
