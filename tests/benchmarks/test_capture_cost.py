"""What captures cost: the comparison's result in words and exit codes, and (slowly) one that is really made."""

import importlib
import json
import random
import sys
from pathlib import Path

import pytest

from qwenperf.errors import MeasurementError
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.stats.spending import Plan

TOLD = {
    "at": "x", "case": "c", "outcome": "pass", "margin": 0.01, "estimate": 0.001, "low": -0.002, "high": 0.004,
    "pairs": 12, "cpu": None, "captures": 72, "compiles": 0, "lost": [], "broken": [], "ready_s": 4.0, "machine": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def cost(repository):
    sys.path.insert(0, str(repository))
    return importlib.import_module("benchmarks.capture_cost")


def test_the_result_is_one_line(cost):
    expected = "pass: 72 captures, 0 compiles in them; time +0.10% (-0.20% to +0.40%) over 12 pairs, margin 1%"
    assert cost.line(TOLD) == expected
    assert "2 lost (it was cut.)" in cost.line({**TOLD, "lost": ["it was cut."] * 2})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"outcome": "fail"}, 1),
        ({"outcome": "improved"}, 1),
        ({"outcome": "inconclusive"}, 3),
        ({"compiles": 1}, 1),
        ({"captures": 0}, 5),
        ({"outcome": "skipped"}, 5),
    ],
)
def test_captures_that_compile_or_slow_down_or_were_not_taken_are_no_success(cost, changes, code):
    assert cost.exit_code({**TOLD, **changes}) == code


def rounds_of(draw, *, after, half=30, process=0.0, noise=0.05):
    """Return rounds of a pair whose head process is slower by ``process`` for life, and by ``after`` since halfway."""
    made = []
    for number in range(2 * half):
        slower = process + (after if number >= half else 0.0)
        wall = tuple(1 + (slower if turn == "B" else 0.0) + draw.gauss(0, noise) for turn in "ABBA")
        made.append(RoundRecord(order="ABBA", wall_s=wall, cpu_s=wall))
    return tuple(made)


class Measured:
    """Pairs that were measured already: ``measure`` returns the next."""

    def __init__(self, records):
        self.records = iter(records)

    def measure(self, _):
        """Return the next pair."""
        return next(self.records)


def cost_of(cost, records, *, half=30, pairs=24):
    hook = cost.Capturing(place=Path("nowhere"), half=half)
    found = cost.Cost(pairs=Measured(records), hook=hook, plan=Plan(looks=(pairs,), margin=0.01), limit_s=600.0)
    found.measure()
    return found


def pairs_of(after, *, count=24, seed=1):
    draw = random.Random(seed)
    return [
        PairRecord(number=number, first="base", rounds={"c": rounds_of(draw, after=after, process=draw.gauss(0, 0.05))})
        for number in range(1, count + 1)
    ]


def test_what_a_process_keeps_for_life_is_no_cost_of_a_capture(cost):
    """Processes that differ by 5% say nothing of a capture, for each is compared with what it was before."""
    decision = cost_of(cost, pairs_of(0.0)).decision()
    assert decision.outcome == "pass"
    assert abs(decision.estimate) < 0.01


def test_a_lasting_cost_is_found_under_processes_that_differ_by_more(cost):
    decision = cost_of(cost, pairs_of(0.03)).decision()
    assert decision.outcome == "fail"
    assert 0.02 < decision.estimate < 0.04


def test_one_round_that_another_program_disturbed_moves_nothing(cost):
    rounds = list(rounds_of(random.Random(1), after=0.02, noise=0.001))
    rounds[5] = RoundRecord(order="ABBA", wall_s=(1.0, 9.0, 9.0, 1.0), cpu_s=(1.0,) * 4)
    assert cost.shift(rounds, 30) == pytest.approx(0.02, abs=0.002)


def test_pairs_that_break_are_left_out_and_too_many_end_it(cost):
    broken = [PairRecord(number=number, first="base", failed="no trace was saved: it was cut.") for number in (1, 2, 3)]
    found = cost_of(cost, [*pairs_of(0.0, count=6), *broken])
    assert (len(found.seen), len(found.whole())) == (9, 6)
    assert cost_of(cost, broken).decision() is None


class Speaker:
    """A subject that keeps what it is asked, and answers like one whose captures succeed or not."""

    def __init__(self, *, trace="a file", lost=()):
        self.asked, self.answer = [], {"trace": trace, "lost": list(lost), "compiles": 0}

    def ask(self, message, _):
        """Answer."""
        self.asked.append("trace" if "trace" in message else message["repeats"])
        return self.answer


def test_a_capture_comes_once_in_the_middle_of_each_pair_and_base_makes_the_same_requests(cost, tmp_path):
    hook = cost.Capturing(place=tmp_path, half=2)
    for _ in range(2):
        subjects = {"base": Speaker(), "head": Speaker()}
        for _ in range(4):
            hook("c", subjects)
        assert subjects["head"].asked == ["trace", 2]
        assert subjects["base"].asked == [3, 2]
    assert (hook.taken, list(tmp_path.iterdir())) == (2, [])


def test_a_pair_without_its_capture_counts_for_nothing(cost, tmp_path):
    hook = cost.Capturing(place=tmp_path, half=1)
    with pytest.raises(MeasurementError, match="no trace was saved: it was cut"):
        hook("c", {"base": Speaker(), "head": Speaker(trace=None, lost=["it was cut."])})
    assert (hook.taken, hook.lost) == (0, ["it was cut."])


@pytest.mark.usefixtures("measured_beside")
def test_it_waits_for_another_measurement_before_it_has_a_folder(cost, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cost.main(["--quick", "--folder", "below"]) == 4
    assert "another measurement runs on this machine: process" in capsys.readouterr().err
    assert not (tmp_path / "below").exists()


@pytest.mark.slow
def test_captures_between_trials_are_really_taken_and_compile_nothing(cost, tmp_path, capsys, monkeypatch):
    """On the tiny model, and into a relative folder; what it says of the time is not judged here."""
    monkeypatch.chdir(tmp_path)
    cost.main(["--quick", "--json", "--folder", "below"])
    told = json.loads(capsys.readouterr().out)
    assert (told["captures"], told["compiles"], told["lost"], told["broken"]) == (6, 0, [], [])
    assert list(tmp_path.rglob("*.xplane.pb")) == []
