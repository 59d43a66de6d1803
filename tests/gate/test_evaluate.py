import dataclasses

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import GATES, judge_case, judge_run
from qwenperf.gate.verdict import ELSEWHERE, NOT_JUDGED, exit_code, skip_reason
from qwenperf.schema.codec import dumps, loads
from qwenperf.schema.records import CompileCause, CompileEvent, Divergence, Outcome, Status, Verdict, metric

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
def test_reference_rungs_are_excused_from_shapes_and_flat_steps_only(make_case, engine):
    """They are slow on purpose, but never wrong."""
    verdicts = {verdict.gate: verdict for verdict in judge_case(make_case(engine), NONE, {})}
    for gate in ("shapes", "scaling"):
        assert verdicts[gate].outcome is Outcome.SKIPPED
        assert f"{engine} is a reference rung" in verdicts[gate].summary
    wrong = Divergence(equal=False, reference="uncached", position=1)
    assert outcomes(make_case(engine, evidence={"divergence": wrong}))["tokens"] is Outcome.FAIL


def test_a_reference_rung_is_still_held_to_what_is_declared_and_possible(make_case):
    """A budget for it is judged; a refused call and an impossible speed are nothing that slowness explains."""
    budgets = parse({"*": {"decode_tokens_per_s": {"min": 1e9}, "compiles_steady": {"max": 0}}})
    seen = outcomes(make_case("naive"), budgets)
    assert (seen["throughput"], seen["shapes"]) == (Outcome.FAIL, Outcome.PASS)
    assert outcomes(make_case("naive", metrics={"mfu": metric("mfu", 99.0)}))["throughput"] is Outcome.FAIL
    refused = CompileEvent(function="decode_step", phase="steady", seconds=0.0, refused=True)
    assert outcomes(make_case("naive", evidence={"compiles": (refused,)}))["shapes"] is Outcome.FAIL


def test_a_strangers_engine_is_not_excused_by_its_name(make_case):
    """Only a case of ours carries the flag, whatever somebody calls an engine."""
    compiled = CompileEvent(function="decode_step", phase="steady", seconds=0.1)
    case = make_case("cached", evidence={"compiles": (compiled,)})
    stranger = dataclasses.replace(case, spec={"engine": "padded", "workload": case.spec["workload"]})
    assert outcomes(stranger)["shapes"] is Outcome.FAIL


@pytest.mark.parametrize(
    ("budget", "gate"),
    [
        ({"decode_tokens_per_s": {"min": 1}}, "throughput"),
        ({"min_roofline_share": 0.1}, "throughput"),
        ({"peak_bytes": {"max": 9}}, "budget:peak_bytes"),
        ({"scaling_per_100_tokens": {"max": 0.1}}, "scaling"),
    ],
)
def test_a_declared_budget_for_which_nothing_was_measured_is_not_green(make_case, make_run, budget, gate):
    """Skipped alone would look like kept: the exit code is that of a missing measurement."""
    case = make_case(evidence={"stream": None})
    for name in ("decode_tokens_per_s", "mbu", "mfu"):
        case.metrics.pop(name)
    judged = judge_run(make_run(case), parse({"4x128/*": budget}))
    verdict = next(one for one in judged.cases[0].verdicts if one.gate == gate)
    assert verdict.outcome is Outcome.SKIPPED
    assert skip_reason(verdict) == NOT_JUDGED
    assert exit_code(judged) == 5


def test_budgets_of_other_machines_and_of_rungs_that_were_not_asked_for_are_said_and_not_held_against_a_run(
    make_case, make_run
):
    """Neither could have been measured in this run."""
    for table in (
        {"environment": "tpu-*", "ttft_s": {"max": 1}},
        {"environment": "tpu-*", "decode_tokens_per_s": {"min": 1}},
        {"min_times": {"rung": "naive", "factor": 4.0}},
    ):
        judged = judge_run(make_run(make_case()), parse({"4x128/*": table}))
        assert [skip_reason(one) for one in judged.cases[0].verdicts if skip_reason(one)] == [ELSEWHERE]
        assert exit_code(judged) == 0


def test_a_rung_without_the_metric_keeps_a_multiple_from_being_green(make_case, make_run):
    """It was asked for and gave nothing to compare with."""
    naive = make_case("naive")
    naive.metrics.pop("decode_tokens_per_s")
    budgets = parse({"*/cached/*": {"min_times": {"rung": "naive", "factor": 4.0}}})
    assert exit_code(judge_run(make_run(naive, make_case()), budgets)) == 5


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
    assert exit_code(strict) == 5
    assert [finding.code for finding in strict.findings] == ["budget-unmatched"]
    again = judge_run(strict, NONE)
    assert exit_code(again) == 0
    assert again == judge_run(run, NONE)


def test_globs_for_other_suites_are_no_finding(make_case, make_run):
    """Budgets of all suites live in one file."""
    assert not judge_run(make_run(make_case()), parse({"gpt2-size/*": {}})).findings


def test_a_glob_of_tests_is_no_finding_of_a_run(make_case, make_run):
    """The budgets of tests stand in the same file, and no suite has their cases."""
    budgets = parse({"*test_gates.py::*/decode_step/*": {"compiles_steady": {"max": 0}}})
    judged = judge_run(make_run(make_case()), budgets)
    assert (judged.findings, exit_code(judged)) == ((), 0)


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


def test_what_failed_in_a_test_stays_failed_when_its_record_is_judged_again(make_case, make_run):
    """The limits of a test are in its code: a new judgement adds what it finds and takes nothing away."""
    slow = Verdict(gate="throughput", outcome=Outcome.FAIL, summary="below the test's own floor")
    large = Verdict(gate="budget:argument_bytes", outcome=Outcome.FAIL, summary="above the test's own limit")
    untold = Verdict(
        gate="tokens", outcome=Outcome.SKIPPED, summary="nothing to compare with", data={"budget": NOT_JUDGED}
    )
    case = make_case(evidence={"divergence": None}, verdicts=(slow, large, untold))
    of_a_test = dataclasses.replace(case, spec={**case.spec, "test": "test_mine.py::test_speed"})
    seen = judge_run(make_run(of_a_test), NONE).cases[0].verdicts
    assert [one for one in seen if one in (slow, large, untold)] == [untold, slow, large]
    assert len(seen) == len(GATES) + 1
    assert exit_code(make_run(dataclasses.replace(of_a_test, verdicts=seen))) == 1
    assert exit_code(judge_run(make_run(case), NONE)) == 0
