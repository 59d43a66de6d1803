"""Verdicts on pairs: what they say, what they refuse, and how often they are wrong."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats import bounds
from qwenperf.stats.noise import pair_noise
from qwenperf.stats.sequential import Plan, decide, judge, outcomes

PLAN = Plan()
calm = st.lists(st.floats(-0.2, 0.2), min_size=20, max_size=20)


def pairs_of(effect, sd, count=20, seed=1):
    return (math.log1p(effect) + sd * np.random.default_rng(seed).normal(size=count)).tolist()


@pytest.mark.parametrize(
    ("effect", "outcome"), [(0.2, Outcome.FAIL), (0.0, Outcome.PASS), (-0.2, Outcome.IMPROVED), (0.015, Outcome.PASS)]
)
def test_clear_pairs_are_judged_and_the_estimate_is_relative(effect, outcome):
    """In log ratios 20% slower and 20% faster are not alike; people read differences."""
    found = judge({"case": pairs_of(effect, 0.01)}, {}, PLAN)["case"]
    assert found.outcome is outcome
    assert found.estimate == pytest.approx(effect, abs=0.02)
    assert found.low <= found.estimate <= found.high
    assert found.settle == ""


def test_noise_is_inconclusive_and_says_what_it_could_have_seen_and_what_would_settle_it():
    """Silence is no pass."""
    found = judge({"case": pairs_of(0.02, 0.15, seed=4)}, {}, PLAN)["case"]
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.smallest_effect > 0.08
    assert "a quieter machine" in found.settle


def test_modes_are_named_with_advice_to_pin():
    """Two states of a process are no drift of the machine."""
    values = np.where(np.arange(20) % 2 == 0, 0.0, 0.12) + pairs_of(0, 0.004)
    found = judge({"case": values.tolist()}, {}, PLAN)["case"]
    assert found.modes == pytest.approx((0.0, math.expm1(0.12)), abs=0.01)
    assert found.outcome is Outcome.FAIL or "two modes" in found.settle


@given(st.lists(calm, min_size=1, max_size=4), st.floats(0.01, 0.1))
@settings(max_examples=60, deadline=None)
def test_outcomes_follow_from_what_is_shown(cases, margin):
    """A reader can check each verdict against its numbers."""
    for found in judge(dict(enumerate(cases)), dict.fromkeys(range(len(cases)), margin), PLAN).values():
        fail = found.low > 0 and found.estimate >= margin - 1e-12
        assert (found.outcome is Outcome.FAIL) == fail
        if found.outcome is Outcome.PASS:
            assert found.high < margin
        if found.outcome is Outcome.IMPROVED:
            assert found.high < 0
        if found.outcome is Outcome.INCONCLUSIVE:
            assert found.high >= margin - 1e-12
            assert found.settle
        assert found.low <= found.estimate <= found.high


@given(calm)
@settings(max_examples=40, deadline=None)
def test_swapping_head_and_base_mirrors_what_is_claimed(values):
    """Slower and faster are claimed at one level: the bound of the one is that of the other, the sign turned."""
    there = decide({"case": values}, {}, PLAN, 2)["case"]
    back = decide({"case": [-value for value in values]}, {}, PLAN, 2)["case"]
    assert math.log1p(there.estimate) == pytest.approx(-math.log1p(back.estimate), abs=1e-9)
    if there.outcome is Outcome.IMPROVED:
        assert math.log1p(there.high) == pytest.approx(-math.log1p(back.low), abs=1e-9)
        assert back.outcome is Outcome.FAIL


@given(calm, st.floats(0, 0.3))
@settings(max_examples=40, deadline=None)
def test_a_slower_head_never_turns_a_fail_into_a_pass(values, more):
    """At one look: the same pairs, all slower by as much."""
    verdicts = [Outcome.IMPROVED, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    before = decide({"case": values}, {}, PLAN, 2)["case"]
    after = decide({"case": [value + more for value in values]}, {}, PLAN, 2)["case"]
    assert after.low >= before.low - 1e-9
    assert verdicts.index(after.outcome) >= verdicts.index(before.outcome) or more < 1e-9


def test_six_pairs_never_fail_a_case():
    """Six coins alike are 1 in 64, whatever an interval says that believes in a normal distribution."""
    found = decide({"case": [0.3, 0.301, 0.299, 0.3, 0.302, 0.298]}, {}, PLAN, 0)["case"]
    assert (found.outcome, found.p_permutation) == (Outcome.INCONCLUSIVE, None)
    assert found.low <= 0
    assert "6 of 20" in found.settle


@pytest.mark.parametrize(("looks", "cases", "needed"), [((6,), 1, 7), ((6, 8), 10, 10)])
def test_a_plan_that_can_fail_nothing_says_so(looks, cases, needed):
    """It finds no slowdown, however large, and pairs alone are no advice: the plan is too short."""
    unchanged = {f"case {i}": pairs_of(0, 0.01, looks[-1], seed=i) for i in range(cases - 1)}
    found = judge({"slow": pairs_of(0.5, 0.01, looks[-1]), **unchanged}, {}, Plan(looks=looks))["slow"]
    assert (found.outcome, found.smallest_effect) == (Outcome.INCONCLUSIVE, math.inf)
    assert f"whose last look has {needed} pairs or more: {looks[-1]} cannot fail" in found.settle


def test_decisions_of_earlier_looks_stand_and_count_in_the_family():
    """A case that has passed is not asked again; one that was open is."""
    calm = {f"case {i}": pairs_of(0, 0.005, 6, seed=i) for i in range(3)}
    first = {**calm, "open": pairs_of(0.1, 0.03, 6, seed=2)}
    made = decide(first, {}, PLAN, 0)
    assert made["case 1"].outcome is Outcome.PASS
    then = {**calm, "open": pairs_of(0.1, 0.03, 12, seed=2)}
    second = decide(then, {}, PLAN, 1, made)
    assert second["case 1"] is made["case 1"]
    assert (second["open"].pairs, second["open"].look) == (12, 1)


def test_a_single_regression_needs_more_among_many_cases():
    """Holm: ten cases share the chance of a false fail."""
    slow = pairs_of(0.045, 0.05, seed=9)
    alone = decide({"slow": slow}, {}, PLAN, 2)["slow"]
    among = decide({"slow": slow, **{f"case {i}": pairs_of(0, 0.05, seed=i + 20) for i in range(9)}}, {}, PLAN, 2)
    assert among["slow"].low < alone.low
    assert among["slow"].smallest_effect > alone.smallest_effect


def test_too_few_pairs_are_inconclusive_and_say_so():
    """A case whose pairs crashed is no pass."""
    found = decide({"case": [0.0, 0.0]}, {}, PLAN, 0)["case"]
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.smallest_effect == math.inf
    assert "2 of 6" in found.settle


@pytest.mark.parametrize(
    ("pairs", "margins", "look", "error", "said"),
    [
        ({}, {}, 0, MeasurementError, "no case"),
        ({"a": [0.0] * 7}, {}, 0, MeasurementError, "7 pairs at a look of 6"),
        ({"a": [0.0, math.nan]}, {}, 0, MeasurementError, "pair 1 of a is nan"),
        ({"a": [0.0] * 6}, {}, 3, UsageError, "look 3"),
        ({"a": [0.0] * 6}, {"b": 0.1}, 0, UsageError, "'b'"),
        ({"a": [0.0] * 6}, {"a": -0.1}, 0, UsageError, "margin of 'a'"),
    ],
)
def test_what_cannot_be_judged_is_refused(pairs, margins, look, error, said):
    """By name."""
    with pytest.raises(error, match=said):
        decide(pairs, margins, PLAN, look)


def test_equal_pairs_pass():
    """A difference of nothing, measured without noise, ends in no division by nothing."""
    found = judge({"case": [0.0] * 20}, {}, PLAN)["case"]
    assert (found.outcome, found.estimate, found.pairs) == (Outcome.PASS, 0.0, 6)


def false_fails(kind, count, sd):
    """In how many comparisons of ten unchanged cases any fails."""
    random = np.random.default_rng([31, *kind.encode()])
    fails = 0
    for _ in range(count):
        noise = pair_noise(kind, random, cases=10, pairs=20, sd=sd)
        fails += Outcome.FAIL in outcomes(dict(enumerate(noise.tolist())), {}, PLAN).values()
    return fails


MOST = 9
"""False fails of 300 comparisons: of a chance of 1%, so many or more are seen in 1 of 250 seeds."""


@pytest.mark.parametrize("kind", ["iid", "bimodal"])
def test_few_comparisons_of_unchanged_code_have_any_false_fail(kind):
    """At most 1 in 100, as far as 300 can tell."""
    assert false_fails(kind, 300, 0.15) < MOST


@pytest.mark.parametrize("fault", ["spending", "family", "ranks"])
def test_a_method_without_one_of_its_parts_is_noticed(monkeypatch, fault):
    """Alpha whole at every look, no sharing among the cases, or t below what ranks prove: all fail too often."""
    if fault == "spending":
        monkeypatch.setattr(bounds, "fail_level", lambda plan, look, share: plan.alpha)  # noqa: ARG005 - its signature
    elif fault == "family":
        real = bounds.fail_level
        monkeypatch.setattr(bounds, "fail_level", lambda plan, look, share: real(plan, look))  # noqa: ARG005
    else:
        monkeypatch.setattr(bounds, "provable", lambda count, level: count > 6)  # noqa: ARG005
        monkeypatch.setattr(bounds.LogRatios, "lower", lambda case, level: case.student_lower(0.01, case.deviation))  # noqa: ARG005
    assert false_fails("iid", 300, 0.15) >= MOST
