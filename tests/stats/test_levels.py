"""Which of two levels pairs lie at: told soon, rarely wrongly in any noise, and only after whole blocks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.stats.levels import Level, Levels, measured_level, tell
from qwenperf.stats.noise import KINDS, pair_noise

EFFECT = math.log(1.08)
ASKED = Levels(changed=math.log(1.065), expected=EFFECT, deviation=0.055)
STRICT = replace(ASKED, false_changed=0.005)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_level_is_told_wrongly_as_rarely_as_was_asked_and_with_few_pairs(kind):
    """In every kind of noise, though nobody knows its law; half as many pairs as an ordinary comparison plans."""
    random, tries = np.random.default_rng(16), 1500
    wrong, needed = {0.0: 0, EFFECT: 0}, []
    for _ in range(tries):
        for level, other in ((0.0, Level.CHANGED), (EFFECT, Level.UNCHANGED)):
            told = tell(level + pair_noise(kind, random, cases=1, pairs=20, sd=0.055)[0], ASKED)
            wrong[level] += told.level is other
            needed.append(told.pairs)
    # 2% of 1,500 are 30; what is above 46 is chance in one of 1,000.
    assert max(wrong.values()) <= 46
    assert np.mean(needed) <= 12


def test_a_deviation_that_is_wrong_costs_pairs_and_no_errors():
    """Stakes go by it, and the chance of an error does not."""
    random = np.random.default_rng(17)
    for guess in (0.005, 0.5):
        asked, wrong = replace(ASKED, deviation=guess), 0
        for _ in range(1000):
            wrong += tell(pair_noise("iid", random, cases=1, pairs=20, sd=0.055)[0], asked).level is Level.CHANGED
        assert wrong <= 34


def test_six_pairs_alike_tell_a_level_and_eight_a_culprit():
    """Fewer tell nothing, however far off they are."""
    for value, level in ((EFFECT, Level.CHANGED), (0.0, Level.UNCHANGED)):
        calm = replace(ASKED, deviation=0.01)
        assert tell([value] * 5, calm).level is Level.OPEN
        assert (tell([value] * 20, calm).level, tell([value] * 20, calm).pairs) == (level, 6)
    assert tell([EFFECT] * 20, replace(STRICT, deviation=0.01)).pairs == 8


def test_pairs_between_both_levels_stay_open():
    """Rather than being guessed."""
    middle = [ASKED.changed / 2 + 0.1 * (-1) ** number for number in range(20)]
    assert tell(middle, replace(ASKED, deviation=0.1)).level is Level.OPEN


def test_calm_pairs_that_lie_at_neither_level_are_like_the_nearer_one():
    """Another change than the one that is searched for is in between."""
    calm = replace(ASKED, deviation=0.002)
    for share, level in ((0.3, Level.UNCHANGED), (0.7, Level.CHANGED)):
        assert tell([ASKED.changed * share] * 8, calm).level is level


def test_what_lies_beyond_a_level_is_like_it():
    """A commit that is faster than good is not changed, one that is slower than bad is."""
    noise = 0.02 * np.resize([1.0, -1.0], 20)
    assert tell(noise - 0.05, ASKED).level is Level.UNCHANGED
    assert tell(noise + 0.3, ASKED).level is Level.CHANGED


def test_one_wild_pair_costs_a_few_more_and_not_the_answer():
    """Its stake has an end."""
    calm = replace(ASKED, deviation=0.01)
    told = tell([EFFECT] * 3 + [-1.0] + [EFFECT] * 16, calm)
    assert told.level is Level.CHANGED
    assert told.pairs <= 14


pairs = st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=20)


@given(pairs)
def test_pairs_behind_a_decision_do_not_change_it(values):
    """It is the same whether they were measured or not, and it falls after whole blocks."""
    told = tell(values, ASKED)
    if told.level is not Level.OPEN:
        assert told.pairs % 2 == 0
        assert tell(values[: told.pairs], ASKED) == told
        assert tell(values[: told.pairs - 1], ASKED).level is Level.OPEN
    else:
        assert told.pairs == len(values)


@given(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=6), st.floats(0.002, 0.5))
def test_a_stake_against_the_true_level_multiplies_by_1_at_most(sizes, deviation):
    """Over all signs of any sizes: what the chances of errors rest on."""
    asked = Levels(changed=1e3, expected=EFFECT, deviation=deviation, false_changed=1e-9, most=len(sizes) + 1)
    signs = [[(-1) ** (number >> place & 1) for place in range(len(sizes))] for number in range(2 ** len(sizes))]
    won = [tell([sign * size for sign, size in zip(each, sizes, strict=True)], asked) for each in signs]
    assert np.mean([one.against_unchanged for one in won]) <= 1 + 1e-9


@given(pairs)
def test_a_slowdown_added_to_pairs_never_speaks_for_unchanged_code(values):
    """More time is more evidence of a change, as long as stakes go by the same deviation."""
    more = [value + 0.01 for value in values[:2]]
    before, after = tell(values[:2], ASKED), tell(more, ASKED)
    assert after.against_unchanged >= before.against_unchanged
    assert after.against_changed <= before.against_changed


def test_what_was_measured_tells_the_least_level_and_the_deviation():
    """The least is below the truth in one of ten."""
    random = np.random.default_rng(18)
    found = [measured_level(EFFECT + random.normal(0, 0.05, size=24)) for _ in range(400)]
    assert 0.04 <= np.mean([low > EFFECT for low, _ in found]) <= 0.17
    assert np.mean([deviation for _, deviation in found]) == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [{"changed": 0.0}, {"expected": math.inf}, {"deviation": -1.0}, {"false_changed": 1.0}, {"most": 1}],
)
def test_what_no_pairs_can_tell_is_refused(wrong):
    """In words."""
    with pytest.raises(UsageError):
        replace(ASKED, **wrong)
    for values in ([math.nan] * 6, [0.1, math.inf] * 3):
        with pytest.raises(MeasurementError):
            tell(values, ASKED)
        with pytest.raises(MeasurementError):
            measured_level(values)
    with pytest.raises(MeasurementError):
        measured_level([0.1] * 3)
