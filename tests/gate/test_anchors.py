"""Anchors beside the cases: what they say of pairs, and that they decide nothing."""

import pytest

from qwenperf.gate.anchors import anchor_medians, anchor_notes
from qwenperf.schema.comparison import PairRecord, RoundRecord


def make_pair(number, ratio, **other):
    """Return a pair whose compute anchor took ``ratio`` times as long in head."""
    one = RoundRecord(order="ABBA", wall_s=(1.0, ratio, ratio, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0))
    even = RoundRecord(order="BAAB", wall_s=(1.0, 1.0, 1.0, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0))
    return PairRecord(number=number, first="base", rounds={"anchor/compute": (one,), "anchor/memory": (even,)}, **other)


def test_a_pair_in_which_the_machine_took_sides_is_named_whichever_side_it_was():
    """By 10% or more; what is less is noise."""
    notes = anchor_notes([make_pair(1, 1.2), make_pair(2, 1.05), make_pair(3, 1 / 1.2)])
    assert notes == ("the compute anchor, which no change touches, differed by 10% or more in pair 1 (+20%), 3 (-17%)",)


def test_broken_pairs_and_those_of_another_stage_say_nothing():
    """Half of a pair is no pair."""
    assert anchor_notes([make_pair(1, 2.0, failed="killed"), make_pair(1, 2.0, stage=2)]) == ()


def test_medians_are_over_the_pairs():
    """One bad pair moves none."""
    found = anchor_medians([make_pair(1, 1.0), make_pair(2, 1.02), make_pair(3, 5.0)])
    assert found == {"anchor/compute": pytest.approx(0.02), "anchor/memory": pytest.approx(0.0)}
    even = anchor_medians([make_pair(number, 1 + number / 100) for number in (1, 2, 4, 8)])
    assert even["anchor/compute"] == pytest.approx(0.03)
