import tomllib

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import judge_run
from qwenperf.gate.propose import propose
from qwenperf.gate.verdict import exit_code, failed
from qwenperf.schema.records import Outcome, Status, metric

CASE = "4x128/cached/b1-p16-n40-f32"


def budgets_of(text):
    return tomllib.loads(text)["tool"]["qwenperf"]["budgets"]


def test_a_run_keeps_what_it_proposes(make_case, make_run):
    """The text parses, every budget passes, and nothing is inconclusive."""
    run = make_run(make_case("naive", speed=123.4), make_case(speed=987.6))
    judged = judge_run(run, parse(budgets_of(propose(run))))
    assert exit_code(judged, inconclusive="fail") == 0
    outcomes = {verdict.gate: verdict.outcome for verdict in judged.cases[1].verdicts}
    assert set(outcomes.values()) == {Outcome.PASS}
    assert outcomes["throughput"] is Outcome.PASS
    assert outcomes["budget:temp_bytes"] is Outcome.PASS


def test_timed_metrics_and_compiler_facts_get_a_fifth_of_room_and_others_none(make_case, make_run):
    """What our own code decides is exact; a millisecond is weather, and scratch bytes are the next compiler's."""
    run = make_run(make_case("naive", speed=100.0), make_case())
    table = budgets_of(propose(run))[CASE]
    assert table["temp_bytes"] == {"max": 4916}
    assert table["compiles_cold"] == {"max": 4}
    assert table["kv_cache_allocated_bytes"] == {"max": 100_000}
    assert table["dispatches_per_token"] == {"max": 0.025}
    assert table["decode_tokens_per_s"] == {"min": 800}
    assert table["ttft_s"] == {"max": 0.012}
    assert table["min_times"] == {"rung": "naive", "factor": 8}
    assert table["environment"] == "cpu-x86_64-2core"


@pytest.mark.parametrize(
    "broken",
    [
        {"status": Status.TIMED_OUT},
        {"verdicts": (failed("shapes", "it compiled"),)},
        {"metrics": {}},
    ],
)
def test_a_broken_case_is_left_out_with_the_reason(make_case, make_run, broken):
    """A budget must not bless what is broken."""
    case = make_case(**{key: value for key, value in broken.items() if key != "metrics"})
    if "metrics" in broken:
        case.metrics.clear()
    text = propose(make_run(case))
    assert "tool" not in tomllib.loads(text)
    assert f"# {CASE} left out: " in text


def test_reference_rungs_get_no_budget(make_case, make_run):
    """Nobody wants the slow rungs to stay fast."""
    assert "tool" not in tomllib.loads(propose(make_run(make_case("naive"))))


@pytest.mark.parametrize("model", ['a"b\\c', "models/[v2]*?", "naïve 7b", "tab\there", "del\x7f\u200bescape\x1b"])
def test_any_case_name_survives(make_case, make_run, model):
    """Quotes and wildcards in a path are taken literally."""
    case = make_case(id=f"{model}/cached/x")
    table = budgets_of(propose(make_run(case)))
    assert parse(table).for_case(case.id, "cpu-x86_64-2core").limits
    assert not parse(table).for_case("models/v/cached/x", "cpu-x86_64-2core").limits


@pytest.mark.parametrize("speed", [0.001234, 7.0, 99999.0, 1.5e9])
def test_rounding_never_tightens(make_case, make_run, speed):
    """Three digits, away from what was measured."""
    run = make_run(make_case(speed=speed, metrics={"ttft_s": metric("ttft_s", 1 / speed)}))
    assert exit_code(judge_run(run, parse(budgets_of(propose(run))))) == 0
