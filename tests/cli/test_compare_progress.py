"""What is said while pairs are measured."""

import math

from qwenperf.cli.compare_progress import PairProgress
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideRecord

SIDE = SideRecord(label="x", kind="same")


def make_pair(number, ratios, **other):
    rounds = {
        case: (RoundRecord(order="ABBA", wall_s=(1.0, ratio, ratio, 1.0), cpu_s=(1.0, 1.0, 1.0, 1.0)),)
        for case, ratio in ratios.items()
    }
    return PairRecord(number=number, first="base", rounds=rounds, **other)


def said_of(pairs, cases=("a",), most=6):
    """Return what is said after each of ``pairs``, which take 10 seconds each."""
    said, clock = [], iter(range(0, 1000, 10))
    progress = PairProgress(said.append, now=lambda: float(next(clock)))
    for count in range(1, len(pairs) + 1):
        record = ComparisonRecord(
            id="c", created_at="", base=SIDE, head=SIDE, cases=tuple(ComparedCase(id=name) for name in cases),
            pairs=tuple(pairs[:count]),
        )  # fmt: skip
        progress.pair_ended(record, pairs[count - 1], most)
    return said


def test_each_pair_says_where_the_comparison_stands():
    """Pairs done, estimate and interval from the second on, and the time left at most."""
    said = said_of([make_pair(1, {"a": 1.1}), make_pair(2, {"a": 1.1})])
    assert said == [
        "pair 1 of at most 6, at most 50.0 s left",
        "pair 2 of at most 6, +10.0% (+10.0% to +10.0%), at most 40.0 s left",
    ]


def test_of_several_cases_the_slowest_is_shown():
    """One line a pair, however many cases there are; anchors are none."""
    pair = {"a": 1.0, "b": 1.2, "anchor/memory": math.e}
    said = said_of([make_pair(1, pair), make_pair(2, pair)], cases=("a", "b"))
    assert "slowest of 2 b: +20.0%" in said[-1]


def test_a_broken_pair_says_why():
    """And counts as no evidence; pairs that confirm are told from the first ones."""
    broken = make_pair(1, {"a": 1.0}, failed="killed", stage=2)
    assert said_of([broken])[0].startswith("confirming pair 1 of at most 6 broke: killed, at most")
