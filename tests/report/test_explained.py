"""Verdicts in sentences and pairs as a picture."""

from xml.etree import ElementTree as ET

import pytest

from qwenperf.report.explained import explain
from qwenperf.report.pairs_svg import pairs_svg
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.records import Outcome, Verdict


def make_verdict(outcome, **data):
    return Verdict(gate="speed", outcome=outcome, summary="time +10.0%", advice="Look.", data=data)


def sentences(verdict):
    side = SideRecord(label="main", kind="revision")
    record = ComparisonRecord(id="c", created_at="", base=side, head=side, plan={"rounds": 6, "trial_s": 0.1})
    return " ".join(explain(record, ComparedCase(id="case", repeats=4), verdict))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_told_in_words(outcome):
    """With how it was reached, and what could have been seen."""
    stage = {"pairs": 6, "smallest_effect": 0.04, "outcome": str(outcome)}
    told = sentences(make_verdict(outcome, stage_1=stage, cpu=0.09))
    assert outcome.value in told
    assert "6 pairs" in told
    assert "4.0%" in told
    assert "To do: Look." in told


def test_pairs_anchors_and_traces_are_told():
    """What the verdict carries, for whoever wants to look further."""
    carried = {"samples": {"stage_1": [0.01, -0.02]}, "anchors": {"anchor/memory": 0.004}, "traces": {"base": "a/b.pb"}}
    told = sentences(make_verdict(Outcome.FAIL, stage_1={"pairs": 6}, **carried))
    assert "in the order of time: +1.0% -2.0%." in told
    assert "differed by anchor/memory +0.4% in the median" in told
    assert "were traced: a/b.pb (base)." in told


def test_it_is_told_where_it_was_measured():
    """What is not known of the machine is left out."""
    machine = {"cpu_model": "Some 3000", "cores": 2, "governor": None, "jax": "0.10.2", "isa": ["avx2"]}
    side = SideRecord(label="main", kind="revision", environment=machine)
    record = ComparisonRecord(id="c", created_at="", base=side, head=side)
    told = list(explain(record, ComparedCase(id="case"), make_verdict(Outcome.PASS)))
    assert "Measured on: cpu_model Some 3000, cores 2, jax 0.10.2." in told


def test_an_unconfirmed_slowdown_is_not_called_noise():
    """It is inconclusive for another reason."""
    stage = {"pairs": 6, "smallest_effect": 0.04, "outcome": "fail"}
    assert "red only once fresh processes" in sentences(make_verdict(Outcome.INCONCLUSIVE, stage_1=stage))


def test_the_picture_has_a_dot_a_pair_and_says_the_same_in_words():
    """Whatever a case is called, it is well-formed; a reader that cannot see it is told."""
    root = ET.fromstring(pairs_svg("a<b>&'\"", [0.01, -0.02, 0.1], margin=0.03, low=0.0, high=0.05))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}circle")) == 3
    assert "3 pairs; head over base between -2.0% and +10.5%; margin 3.0%" in root.find(f"{space}desc").text
    assert len(ET.fromstring(pairs_svg("none", [], margin=0.03)).findall(f"{space}circle")) == 0
