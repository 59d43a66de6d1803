import dataclasses

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import GATES, judge_case, judge_run
from qwenperf.gate.verdict import exit_code
from qwenperf.schema.codec import dumps, loads
from qwenperf.schema.records import CompileCause, CompileEvent, Divergence, Outcome, Status, metric

NONE = parse({})


def outcomes(case, budgets=NONE, *peers):
    return {verdict.gate: verdict.outcome for verdict in judge_case(case, budgets, {peer.id: peer for peer in peers})}


def test_a_good_case_passes_every_gate(make_case):
    """All six look, in their order; without a budget there is no throughput to judge."""
    seen = outcomes(make_case())
    assert tuple(seen) == GATES
    assert {gate: outcome for gate, outcome in seen.items() if outcome is not Outcome.PASS} == {
        "throughput": Outcome.SKIPPED
    }


@pytest.mark.parametrize("engine", ["eager", "naive", "padded", "cached-concat"])
def test_reference_rungs_are_judged_by_their_tokens_only(make_case, engine):
    """They are slow on purpose, but never wrong."""
    verdicts = judge_case(make_case(engine), parse({"*": {"decode_tokens_per_s": {"min": 1e9}}}), {})
    judged = [verdict.gate for verdict in verdicts if verdict.outcome is not Outcome.SKIPPED]
    assert judged == ["tokens"]
    assert f"{engine} is a reference rung" in verdicts[0].summary
    wrong = Divergence(equal=False, reference="uncached", position=1)
    assert outcomes(make_case(engine, evidence={"divergence": wrong}))["tokens"] is Outcome.FAIL


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.MEASURED])
def test_a_case_that_was_not_measured_passes_nothing(make_case, status):
    """Whatever evidence a crashed case left, it is no pass."""
    verdicts = judge_case(make_case(status=status, error="killed\nlong trace"), NONE, {})
    assert {verdict.outcome for verdict in verdicts} == {Outcome.SKIPPED}
    assert verdicts[0].summary == f"the case was not measured ({status.value.replace('_', ' ')}): killed"


def test_a_refused_call_that_ended_its_case_still_fails_the_shape_gate(make_case):
    """The evidence outlives the crash."""
    cause = CompileCause(argument="tokens", what="shape", before="int32[1]", after="int32[2]")
    refused = CompileEvent(function="decode_step", phase="steady", seconds=0.0, refused=True, causes=(cause,))
    case = make_case(status=Status.FAILED, evidence={"compiles": (refused,)})
    seen = outcomes(case)
    assert seen["shapes"] is Outcome.FAIL
    assert set(seen.values()) == {Outcome.FAIL, Outcome.SKIPPED}


def test_any_metric_can_have_a_budget(make_case):
    """Each gets a verdict of its own; one that was not measured is skipped."""
    table = {"temp_bytes": {"max": 4095}, "ttft_s": {"max": 1.0}, "peak_rss_bytes": {"max": 1}}
    seen = outcomes(make_case(), parse({"*": table}))
    assert seen["budget:temp_bytes"] is Outcome.FAIL
    assert seen["budget:ttft_s"] is Outcome.PASS
    assert seen["budget:peak_rss_bytes"] is Outcome.SKIPPED


def test_a_run_is_judged_in_its_environment(make_case, make_run):
    """The class comes from the run's own record."""
    tables = [
        {"environment": "cpu-x86_64-2core", "temp_bytes": {"max": 1}},
        {"environment": "tpu-*", "ttft_s": {"max": 1}},
    ]
    (case,) = judge_run(make_run(make_case()), parse({"*": tables})).cases
    seen = {verdict.gate: verdict for verdict in case.verdicts}
    assert seen["budget:temp_bytes"].outcome is Outcome.FAIL
    assert seen["budget:ttft_s"].outcome is Outcome.SKIPPED
    assert "'cpu-x86_64-2core'" in seen["budget:ttft_s"].summary


def test_judging_again_replaces_the_verdicts(make_case, make_run):
    """Other budgets, another verdict; nothing piles up."""
    run = make_run(make_case())
    strict = judge_run(run, parse({"4x128/*": {"temp_bytes": {"max": 1}}, "nothing-like-it": {}}))
    assert exit_code(strict) == 1
    assert [finding.code for finding in strict.findings] == ["budget-unmatched"]
    again = judge_run(strict, NONE)
    assert exit_code(again) == 0
    assert again == judge_run(run, NONE)


def test_globs_for_other_suites_are_no_finding(make_case, make_run):
    """Budgets of all suites live in one file."""
    assert not judge_run(make_run(make_case()), parse({"gpt2-size/*": {}})).findings


def test_a_multiple_finds_its_rung_in_the_run(make_case, make_run):
    """Peers are the cases of the same run."""
    run = make_run(make_case("naive", speed=100.0), make_case(speed=1000.0))
    judged = judge_run(run, parse({"*/cached/*": {"min_times": {"rung": "naive", "factor": 4.0}}}))
    assert {verdict.gate: verdict.outcome for verdict in judged.cases[1].verdicts}["throughput"] is Outcome.PASS


def test_a_judged_run_reads_back_from_disk_and_is_judged_the_same(make_case, make_run):
    """`qwenperf gate` sees what the run saw."""
    run = make_run(make_case("naive"), make_case(metrics={"mfu": metric("mfu", 9.0)}))
    judged = judge_run(run, NONE)
    assert loads(dumps(judged)) == judged
    assert judge_run(loads(dumps(run)), NONE) == judged


def test_a_case_of_unknown_origin_is_judged(make_case):
    """A record of somebody else's engine has its own spec."""
    assert "tokens" in outcomes(dataclasses.replace(make_case(), spec={}))
