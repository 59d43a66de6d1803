"""The bound on what noise does is a bound, and not a loose one."""

import numpy as np
import pytest

from qwenperf.stats import history_prune
from qwenperf.stats.history_candidates import candidates, clearest
from qwenperf.stats.history_model import Errors, contrast, errors, step_columns
from qwenperf.stats.history_noise import Noise
from qwenperf.stats.history_places import scan
from qwenperf.stats.history_prune import Frame, holm, prune

COUNT = 60


def known(correlation=0.0):
    return Errors(correlation=correlation, deviation=np.sqrt(1 - correlation**2), freedom=200)


def drawn(random, correlation):
    made = random.normal(size=COUNT)
    for index in range(1, COUNT):
        made[index] = correlation * made[index - 1] + np.sqrt(1 - correlation**2) * made[index]
    return made


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_noise_exceeds_a_level_as_often_as_the_p_value_says(correlation):
    """P below 10% in a tenth of unchanged series or less, all places together, and not far less."""
    random = np.random.default_rng(4)
    level = np.ones((COUNT, 1))
    p_values = [scan(drawn(random, correlation), level, known(correlation), 5, 55).p_value() for _ in range(400)]
    share = float(np.mean(np.asarray(p_values) <= 0.1))
    assert 0.03 < share < 0.11


def test_a_score_is_that_of_the_regression():
    """The fast sums give what a fit of the step gives, with and without other columns."""
    random = np.random.default_rng(5)
    values, others = random.normal(size=COUNT), np.hstack([np.ones((COUNT, 1)), step_columns(COUNT, [20])])
    tried = scan(values, others, known(0.3), 25, 55)
    columns = np.hstack([others, step_columns(COUNT, [40])])
    change, spread = contrast(values, columns, np.asarray([0.0, 0.0, 1.0]), known(0.3))
    assert tried.scores[tried.places == 40] == pytest.approx(change / spread)


def test_a_large_step_is_located_to_the_point():
    """And the range is that point."""
    values = np.random.default_rng(6).normal(size=COUNT) + 20 * (np.arange(COUNT) >= 31)
    assert scan(values, np.ones((COUNT, 1)), known(), 5, 55).located() == (31, 31, 31)


def test_ranges_hold_the_place_as_often_as_they_say():
    """95%, of steps of 1.5 deviations."""
    random = np.random.default_rng(7)
    held = []
    for _ in range(200):
        values = random.normal(size=COUNT) + 1.5 * (np.arange(COUNT) >= 30)
        place, first, last = scan(values, np.ones((COUNT, 1)), known(), 5, 55).located()
        assert first <= place <= last
        held.append(first <= 30 <= last)
    assert np.mean(held) >= 0.9


def test_what_the_other_columns_explain_whole_has_no_score():
    """A step where one is already."""
    others = np.hstack([np.ones((COUNT, 1)), step_columns(COUNT, [30])])
    tried = scan(np.random.default_rng(8).normal(size=COUNT), others, known(), 25, 35)
    assert tried.scores[tried.places == 30] == 0


def test_a_contrast_that_the_columns_do_not_tell_has_no_error():
    """Two columns that say the same share a change nobody can split."""
    columns = np.hstack([np.ones((COUNT, 1)), step_columns(COUNT, [30, 30])])
    _, spread = contrast(np.random.default_rng(9).normal(size=COUNT), columns, np.asarray([0.0, 1.0, 0.0]), known())
    assert spread == float("inf")


def test_correlation_is_free_of_the_bias_of_short_series():
    """On average, where a level and a step were fitted."""
    random = np.random.default_rng(10)
    columns = np.hstack([np.ones((COUNT, 1)), step_columns(COUNT, [30])])
    found = [errors(drawn(random, 0.5), columns, 2, 1.0).correlation for _ in range(200)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)


def test_holm_asks_most_of_the_least_likely():
    """And no more of the others than they need."""
    assert holm([0.02, 0.04], 0.04)
    assert not holm([0.03, 0.04], 0.04)
    assert holm([], 0.04)


def test_a_step_stands_among_however_many_that_do_not(monkeypatch):
    """Each round drops one, and no number of rounds drops them all."""
    monkeypatch.setattr(history_prune, "_ROUNDS", 1)
    values = np.random.default_rng(12).normal(size=COUNT) + 20 * (np.arange(COUNT) >= 31)
    frame = Frame(values=values, known=np.ones((COUNT, 1)), edges=(), least=3)
    assert prune(frame, range(4, 56, 4), 0.03).places == (31,)


def test_candidates_of_correlated_values_are_found_at_the_step():
    """The first point of the new level, as in values without correlation."""
    random = np.random.default_rng(11)
    values = drawn(random, 0.5) + 8 * (np.arange(COUNT) >= 25)
    assert 25 in candidates(values, Noise(deviation=1.0, correlation=0.5), 5)


def test_a_history_that_only_swings_has_few_places_to_test():
    """Each is tried beside all others, over and over: with one every few points, a series took minutes."""
    swings = 1 + (np.arange(500) % 97) / 1000
    places = candidates(np.log(swings), Noise(deviation=1e-4, correlation=0.0), 5)
    assert len(places) == 20
    assert {97, 194, 291, 388, 485} <= set(places)


def test_levels_that_differ_least_become_one():
    """And the steps that explain most are left, where they were."""
    values = np.concatenate([np.full(20, level) for level in (1.0, 1.1, 3.0, 2.95, 5.0)])
    assert clearest([20, 40, 60, 80], values, 2) == [40, 80]
