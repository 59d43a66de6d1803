"""Pairs of whole runs; each side's command is a real process that tells a run which was written for the test."""

import math

import pytest

from qwenperf.errors import MeasurementError
from qwenperf.gate.runs import runs_verdict
from qwenperf.lab.run_pairs import Judged, RunPairs
from qwenperf.lab.side_command import run_side
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, metric
from qwenperf.stats.sequential import judge
from qwenperf.stats.spending import Plan

CASE = "tiny/cached/b1-p4-n8-f32"
PLAN = Plan(looks=(6, 12), alpha=0.05)


@pytest.fixture
def side(tmp_path):
    """Return a maker of sides that tell metrics, one line of text, or a failed case."""

    def make(name, text="", **metrics):
        cases = (CaseRecord(id=CASE, spec={}, metrics={key: metric(key, value) for key, value in metrics.items()}),)
        if not metrics:
            cases = (CaseRecord(id=CASE, spec={}, status=Status.FAILED, error="no such weights"),)
        run = RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="ad-hoc", environment={}, cases=cases)
        (tmp_path / f"{name}.json").write_text(text or dumps(run))
        python = tmp_path / name
        python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/{name}.asked\ncat {tmp_path}/{name}.json\n')
        python.chmod(0o755)
        return Side(name=name, label=name, kind="test", root=tmp_path, python=str(python))

    return make


class Notes:
    """A listener that keeps what it hears."""

    def __init__(self):
        self.heard = []

    def run_pair_ended(self, number, most, stage, failed):
        """Note a pair."""
        self.heard.append((stage, number, most, failed))


def pairs(base, head, *metrics, **more):
    keys = tuple((CASE, name) for name in metrics)
    return RunPairs(
        base=base, head=head, arguments=("--model", "tiny"), keys=keys, plan=PLAN, seed=3, listener=Notes(), **more
    )


def test_what_is_worse_fails_once_fresh_runs_agree_whichever_way_is_better(side):
    """Half again as many seconds, or a third less throughput; what is the same passes at the first look."""
    base = side("base", compile_s=2.0, decode_tokens_per_s=300.0, peak_rss_bytes=1e8)
    head = side("head", compile_s=3.0, decode_tokens_per_s=200.0, peak_rss_bytes=1e8)
    told = []
    one = pairs(
        base, head, "compile_s", "decode_tokens_per_s", "peak_rss_bytes", measured=lambda *each: told.append(each)
    )
    found = one.run()
    for name in ("compile_s", "decode_tokens_per_s"):
        judged = found[CASE, name]
        assert judged.outcome is Outcome.FAIL
        assert judged.first.estimate == pytest.approx(0.5)
        assert runs_verdict(name, judged.first, judged.second).outcome is Outcome.FAIL
    assert found[CASE, "peak_rss_bytes"].outcome is Outcome.PASS
    assert {stage for stage, *_ in one.listener.heard} == {1, 2}
    assert {pair.first for pair in one.pairs} == {"base", "head"}
    assert len(told) == 2 * len(one.pairs)
    assert {side for side, _ in told} == {"base", "head"}


def test_a_margin_of_its_own_lets_a_metric_pass(side):
    """Nothing is measured again for it."""
    base, head = side("base", compile_s=2.0), side("head", compile_s=2.1)
    one = pairs(base, head, "compile_s", margins={(CASE, "compile_s"): 0.1})
    judged = one.run()[CASE, "compile_s"]
    assert (judged.outcome, judged.first.margin, len(one.pairs)) == (Outcome.PASS, 0.1, 6)
    assert "compile_s +5.0% (" in runs_verdict("compile_s", judged.first).summary


def test_a_slowdown_that_fresh_runs_do_not_show_is_inconclusive():
    """The first stage alone is no verdict."""
    slower, same = (judge({"one": [math.log(ratio)] * 12}, {}, PLAN)["one"] for ratio in (1.5, 1.0))
    for second, told in ((None, "not confirmed yet"), (same, "6 fresh pairs of runs do not confirm it")):
        assert Judged(first=slower, second=second).outcome is Outcome.INCONCLUSIVE
        verdict = runs_verdict("compile_s", slower, second)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert told in verdict.summary


def test_a_side_that_gives_nothing_ends_it_after_three_pairs_with_its_reason(side):
    """A record without the case's metric, or no record at all."""
    base = side("base", compile_s=2.0)
    with pytest.raises(MeasurementError, match=r"3 pairs broke, the last one: .*no such weights"):
        pairs(base, side("head"), "compile_s").run()
    with pytest.raises(MeasurementError, match="no jax here"):
        pairs(base, side("head", text='{"error": {"message": "no jax here"}}'), "compile_s").run()
    with pytest.raises(MeasurementError, match="has no ttft_s"):
        pairs(base, side("head", compile_s=2.0), "ttft_s").run()


def test_a_run_is_asked_for_without_a_trace_and_leaves_nothing(side, tmp_path):
    """Its tree stays as it was exported."""
    run_side(side("base", compile_s=2.0), ["--model", "tiny"])
    asked = (tmp_path / "base.asked").read_text()
    assert "-P -m qwenperf run --model tiny --no-trace --json --out" in asked
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("qwenperf-run")]
