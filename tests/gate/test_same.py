"""A/A comparisons: what calm and noisy pairs say of the machine."""

import dataclasses
import math
import random

import pytest

from qwenperf.gate.same import pinning, sights
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideRecord
from qwenperf.stats.spending import Plan

CASE = "4x128/cached/b1-p16-n64-f32"


@pytest.fixture
def make_record():
    """Return a maker of A/A comparisons whose pairs deviate by ``noise``."""

    def make(noise, count=20, seed=3):
        draw = random.Random(seed)
        pairs = []
        for number in range(1, count + 1):
            ratio = math.exp(draw.gauss(0, noise))
            one = RoundRecord(order="ABBA", wall_s=(1.0, ratio, ratio, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0))
            pairs.append(PairRecord(number=number, first="base", rounds={CASE: (one,)}))
        side = SideRecord(label="x", kind="same")
        return ComparisonRecord(
            id="c", created_at="", base=side, head=side, cases=(ComparedCase(id=CASE),), pairs=tuple(pairs)
        )

    return make


def test_a_calm_machine_sees_less_than_a_noisy_one_must_be_slowed_by(make_record):
    """And neither cries wolf."""
    plan = Plan()
    (calm,), (noisy,) = (sights(make_record(noise), plan, draws=60) for noise in (0.01, 0.1))
    assert calm.smallest_effect < 0.05 < noisy.smallest_effect
    assert calm.deviation == pytest.approx(0.01, rel=0.5)
    assert calm.false_fails + noisy.false_fails <= 2
    assert "of 60 redrawn comparisons failed (20 pairs)" in calm.text()


def test_too_few_pairs_say_nothing(make_record):
    """No figure is better than one from four pairs."""
    assert sights(make_record(0.01, count=4), Plan()) == ()


def test_pinning_is_recommended_only_where_it_helps(make_record):
    """A fifth more sight is the least that counts."""
    plan = Plan()
    calm, noisy = (sights(make_record(noise), plan, draws=1) for noise in (0.01, 0.1))
    (better,), (worse,), (same,) = pinning(noisy, calm), pinning(calm, noisy), pinning(calm, calm)
    assert better.message.startswith("pinning helps here")
    assert better.advice == "Compare with --cores 1."
    assert worse.message.startswith("pinning hurts here")
    assert same.message.startswith("pinning makes no difference")
    assert [(one.data["helps"], one.data["hurts"]) for one in (better, worse, same)] == [
        (True, False), (False, True), (False, False),
    ]  # fmt: skip
    assert pinning((), calm) == ()


def test_a_noisy_machine_is_not_told_that_pinning_changes_what_is_chance(make_record):
    """At 5% from pair to pair, deviations of twelve pairs differ by a fifth as often as not, and nothing was pinned."""
    plan = Plan()
    seen = [sights(make_record(0.05, count=12, seed=seed), plan, draws=0) for seed in range(40)]
    told = [pinning(free, pinned)[0] for free, pinned in zip(seen[::2], seen[1::2], strict=True)]
    assert sum(one.data["helps"] or one.data["hurts"] for one in told) <= 3
    silent = next(one for one in told if not (one.data["helps"] or one.data["hurts"]))
    assert "pinning makes no difference that 12 and 12 pairs can tell here" in silent.message
    assert silent.advice == ""


def test_what_a_machine_can_tell_apart_is_kept_as_data(make_record):
    """The rate of false fails and the smallest slowdown, per case; no number where there is none."""
    (calm,) = sights(make_record(0.01), Plan(), draws=10)
    data = calm.finding().data
    assert (data["case"], data["draws"], data["false_fail_rate"]) == (CASE, 10, calm.false_fails / 10)
    assert data["smallest_effect"] == calm.smallest_effect
    assert "ratios" not in data
    assert dataclasses.replace(calm, smallest_effect=math.inf).finding().data["smallest_effect"] is None
