"""A timed value is judged by its range on both sides of a limit; too few readings leave doubt."""

import pytest

from qwenperf.gate.limits import Limit, check
from qwenperf.schema.records import Outcome, metric

FIVE = (0.9, 0.95, 1.0, 1.05, 1.1)


def speed(value, factors=FIVE, coverage=0.9375):
    samples = tuple(value * factor for factor in factors)
    return metric("decode_tokens_per_s", value, samples=samples, interval=(samples[0], samples[-1]), coverage=coverage)


def at_least(limit, seen):
    return check(Limit(metric="decode_tokens_per_s", min=limit), seen)


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        (89, Outcome.PASS),
        (95, Outcome.INCONCLUSIVE),
        (105, Outcome.INCONCLUSIVE),
        (111, Outcome.FAIL),
    ],
)
def test_the_range_decides_on_both_sides_alike(limit, outcome):
    """A median just on the good side of a limit that its readings reach over is no pass."""
    assert at_least(limit, speed(100)).outcome is outcome


def test_wild_readings_do_not_pass_by_their_median():
    """Readings from 20 to 300 say nothing of a limit of 100."""
    seen = at_least(100, speed(101, (0.2, 0.5, 1.0, 2.0, 3.0)))
    assert seen.outcome is Outcome.INCONCLUSIVE
    assert "only a difference of 400% or more would be seen" in seen.text


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [(80, Outcome.PASS), (98, Outcome.INCONCLUSIVE), (110, Outcome.INCONCLUSIVE), (125, Outcome.FAIL)],
)
def test_two_trials_decide_only_what_is_far_off(limit, outcome):
    """They cover the median half of the time, so a fifth more is asked of them."""
    seen = at_least(limit, speed(100, (0.99, 1.01), coverage=0.5))
    assert seen.outcome is outcome
    assert ("with so few readings" in seen.text) == (outcome is Outcome.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        (1.6, Outcome.PASS),
        (1.3, Outcome.INCONCLUSIVE),
        (1.01, Outcome.INCONCLUSIVE),
        (0.99, Outcome.INCONCLUSIVE),
        (0.6, Outcome.FAIL),
    ],
)
@pytest.mark.parametrize("known", [{}, {"samples": (1.0,), "interval": (1.0, 1.0), "coverage": 0.0}])
def test_a_single_reading_decides_only_what_is_half_as_much_again(limit, outcome, known):
    """Nothing is known of its noise, also where an interval without width is written beside it."""
    seen = check(Limit(metric="cold_request_s", max=limit), metric("cold_request_s", 1.0, **known))
    assert seen.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert "only a difference of 50% or more would be seen, with one reading" in seen.text
        assert seen.smallest_effect == pytest.approx(0.5)


def test_what_repeats_exactly_is_judged_exactly():
    """A byte more is a byte more."""
    limit = Limit(metric="temp_bytes", max=100)
    assert check(limit, metric("temp_bytes", 100)).outcome is Outcome.PASS
    assert check(limit, metric("temp_bytes", 101)).outcome is Outcome.FAIL
