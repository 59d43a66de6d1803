import dataclasses

import pytest

from qwenperf.gate import throughput
from qwenperf.gate.budget import parse
from qwenperf.schema.records import Finding, Outcome, Roofline, Severity, Status, metric

HERE = "cpu-x86_64-2core"


def judged(case, table, *peers):
    budget = parse({"*": table}).for_case(case.id, HERE)
    return throughput.judge(case, budget, {peer.id: peer for peer in (case, *peers)})


def test_a_loop_five_times_slower_fails_its_floor(make_case):
    """The message holds value, budget and the range of the readings."""
    verdict = judged(make_case(speed=200.0), {"decode_tokens_per_s": {"min": 900}})
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "decode_tokens_per_s 200 tokens/s (readings 194 tokens/s to 206 tokens/s) "
        "is below its budget of at least 900 tokens/s"
    )


def test_a_failure_names_what_takes_the_time_in_the_case_s_trace(make_case):
    """As far as there is one: without a trace the verdict stands alone."""
    case = make_case(speed=200.0)
    row = {"name": "copy", "category": "copy", "source": "cache.py:9", "count": 4, "time_s": 0.03}
    seen = {"steps": 2, "step_s": [0.01, 0.01], "host_gap_s": 0.004, "operations": [row]}
    traced = dataclasses.replace(case, evidence=dataclasses.replace(case.evidence, trace_summary=seen))
    detail = judged(traced, {"decode_tokens_per_s": {"min": 900}}).detail
    assert detail == (
        "in the trace: copy (copy) from cache.py:9: 8.00 ms of 10.0 ms a token",
        "in the trace: host gap: 2.00 ms of 10.0 ms a token",
    )
    assert judged(case, {"decode_tokens_per_s": {"min": 900}}).detail == ()
    assert judged(traced, {"decode_tokens_per_s": {"min": 90}}).detail == ()


def test_a_fast_loop_keeps_its_floor(make_case):
    """And says by how much."""
    verdict = judged(make_case(), {"decode_tokens_per_s": {"min": 900}})
    assert (verdict.outcome, verdict.summary) == (
        Outcome.PASS,
        "decode_tokens_per_s 1,000 tokens/s keeps its budget of at least 900 tokens/s",
    )


def test_readings_around_the_floor_are_inconclusive(make_case):
    """Noise neither passes nor fails."""
    verdict = judged(make_case(), {"decode_tokens_per_s": {"min": 1010}})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "quieter machine" in verdict.advice


def test_a_multiple_of_a_rung_is_measured_in_the_same_run(make_case):
    """Slower machines have slower rungs too."""
    naive = make_case("naive", speed=200.0)
    table = {"min_times": {"rung": "naive", "factor": 4.0}}
    assert judged(make_case(), table, naive).outcome is Outcome.PASS
    slow = judged(make_case(speed=300.0), table, naive)
    assert slow.outcome is Outcome.FAIL
    assert "decode_tokens_per_s over naive 1.50" in slow.summary
    assert "below its budget of at least 4.00" in slow.summary


def test_a_multiple_of_a_metric_where_lower_is_better_is_turned_round(make_case):
    """Four times as good means a quarter of the seconds."""
    naive = make_case("naive", metrics={"ttft_s": metric("ttft_s", 0.07)})
    verdict = judged(make_case(), {"min_times": {"rung": "naive", "factor": 4.0, "metric": "ttft_s"}}, naive)
    assert verdict.outcome is Outcome.PASS
    assert "ttft_s over naive 7.00" in verdict.summary


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": Status.TIMED_OUT, "metrics": {}}, "4x128/naive/b1-p16-n40-f32 timed out"),
        ({"metrics": {}}, "has no decode_tokens_per_s"),
        (
            {"spec": {"model": "other", "engine": "naive"}},
            "the run was not asked for 'naive' of this model and workload",
        ),
    ],
)
def test_a_rung_that_is_not_there_is_never_a_pass(make_case, changes, reason):
    """Even when the other limit is kept."""
    naive = dataclasses.replace(make_case("naive"), **changes)
    table = {"min_times": {"rung": "naive", "factor": 4.0}, "decode_tokens_per_s": {"min": 900}}
    verdict = judged(make_case(), table, naive)
    assert verdict.outcome is Outcome.SKIPPED
    assert reason in verdict.summary
    assert "keeps its budget" in verdict.detail[0]


def test_a_share_of_the_roofline_takes_the_nearer_roof(make_case):
    """A step limited by arithmetic is judged by arithmetic."""
    for share, outcome in ((0.35, Outcome.PASS), (0.5, Outcome.FAIL)):
        assert judged(make_case(), {"min_roofline_share": share}).outcome is outcome
    computing = make_case(metrics={"mfu": metric("mfu", 0.8)})
    assert judged(computing, {"min_roofline_share": 0.5}).outcome is Outcome.PASS


def test_without_a_roofline_there_is_no_share(make_case):
    """Missing evidence is skipped."""
    case = make_case()
    for name in ("mbu", "mfu"):
        case.metrics.pop(name)
    assert judged(case, {"min_roofline_share": 0.3}).outcome is Outcome.SKIPPED


def test_nothing_declared_is_skipped_and_says_how_to_declare(make_case):
    """A speed without a budget is no verdict."""
    verdict = judged(make_case(), {})
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.summary == "no throughput budget declared (measured 1,000 tokens/s)"
    assert "budgets propose" in verdict.advice


def test_an_absolute_budget_of_another_machine_is_skipped(make_case):
    """A number from a TPU says nothing here; the multiple of a rung does."""
    table = {"environment": "tpu-*", "decode_tokens_per_s": {"min": 90000}}
    verdict = judged(make_case(), table)
    assert verdict.outcome is Outcome.SKIPPED
    assert "set for 'tpu-*' ('*'), and this is 'cpu-x86_64-2core'" in verdict.summary
    both = judged(make_case(), table | {"min_times": {"rung": "naive", "factor": 4.0}}, make_case("naive", speed=200.0))
    assert both.outcome is Outcome.PASS
    assert "budget skipped" in both.detail[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": {"mfu": metric("mfu", 9.0)}}, "9.00 times the arithmetic"),
        (
            {"metrics": {"mbu": metric("mbu", 3.0), "bytes_per_step": metric("bytes_per_step", 2e9)}},
            "3.00 times the bytes/s",
        ),
        ({"evidence": {"voids": ("trial 1: 1 us, faster than the 3 ms that the roofline allows",)}}, "trial 1: 1 us"),
    ],
)
def test_faster_than_the_roofline_is_no_speed(make_case, changes, reason):
    """Dispatch timed instead of work fails, though it beats every floor."""
    verdict = judged(make_case(**changes), {"decode_tokens_per_s": {"min": 1}})
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary.startswith(f"implausible: {reason}")
    assert "block_until_ready" in verdict.advice


def test_a_small_model_may_beat_the_memory_roofline(make_case):
    """Its weights lie in the processor's caches."""
    assert judged(make_case(metrics={"mbu": metric("mbu", 3.0)}), {}).outcome is Outcome.SKIPPED


def test_a_void_window_explains_what_is_missing(make_case):
    """A declared floor with no reading is skipped with the reason."""
    case = make_case(evidence={"voids": ("trial 1: decode_step compiled",)})
    case.metrics.pop("decode_tokens_per_s")
    verdict = judged(case, {"decode_tokens_per_s": {"min": 900}})
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.summary == "decode_tokens_per_s was not measured: trial 1: decode_step compiled"


@pytest.mark.parametrize(("mfu", "outcome"), [(6.0, Outcome.SKIPPED), (60.0, Outcome.FAIL)])
def test_arithmetic_is_held_against_the_fastest_dtype(make_case, mfu, outcome):
    """A share of a slow dtype's roofline may be large: what no dtype can do is impossible."""
    rates = {"f32": 2e10, "bf16": 2e11}
    roofline = Roofline(bytes_per_s=2e10, flops_per_s=2e10, extra={"flops_per_s_by_dtype": rates})
    case = make_case(metrics={"mfu": metric("mfu", mfu)}, evidence={"roofline": roofline})
    assert judged(case, {}).outcome is outcome


@pytest.mark.parametrize(("cache", "outcome"), [(1_000_000, Outcome.FAIL), (600_000_000, Outcome.SKIPPED)])
def test_the_cache_of_the_machine_says_which_sizes_lie_in_memory(make_case, cache, outcome):
    """Its size is in the record of the roofline."""
    roofline = Roofline(bytes_per_s=2e10, flops_per_s=2e11, extra={"last_level_cache_bytes": cache})
    sizes = {"mbu": metric("mbu", 3.0), "bytes_per_step": metric("bytes_per_step", 1e8)}
    assert judged(make_case(metrics=sizes, evidence={"roofline": roofline}), {}).outcome is outcome


def without_decode_time(make_case, request_tokens_per_s):
    """A case whose requests took no longer than their first token, as noise makes of a tiny one."""
    case = make_case()
    kept = {name: seen for name, seen in case.metrics.items() if name != "decode_tokens_per_s"}
    kept["request_tokens_per_s"] = metric(
        "request_tokens_per_s", request_tokens_per_s, samples=(request_tokens_per_s,) * 5
    )
    noted = Finding(
        code="no-decode-time", severity=Severity.WARNING, message="a request took no longer than its start."
    )
    spec = {**case.spec, "workload": {**case.spec["workload"], "new_tokens": 8}}
    return dataclasses.replace(case, metrics=kept, spec=spec, findings=(noted,))


def test_a_floor_that_whole_requests_keep_needs_no_time_per_token(make_case):
    """Seven of eight tokens within the whole request is the least that decoding alone can be."""
    verdict = judged(without_decode_time(make_case, 1000.0), {"decode_tokens_per_s": {"min": 800}})
    assert verdict.outcome is Outcome.PASS
    assert "by whole requests at least 875 tokens/s" in verdict.summary


def test_a_floor_that_whole_requests_do_not_prove_stays_unjudged_and_says_why(make_case):
    """A lower bound under the floor says nothing of decoding alone: neither pass nor fail."""
    verdict = judged(without_decode_time(make_case, 1000.0), {"decode_tokens_per_s": {"min": 900}})
    assert verdict.outcome is Outcome.SKIPPED
    assert "was not measured: a request took no longer than its start" in verdict.summary
