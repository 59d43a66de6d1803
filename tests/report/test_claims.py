"""Claims stand beside what was measured, and no ratio is shown as measured that was extrapolated."""

import pytest

from qwenperf.report.claims import claims_report
from qwenperf.report.terminal import Places, render, run_report, rung_table
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, metric
from qwenperf.workloads.case import Case
from qwenperf.workloads.claims import CLAIMS, DEEP, FLAT_CLAIMS, GPT2, GPT2_INT8, LONG, LONG_8, SIZE_CLAIMS
from qwenperf.workloads.suites import SUITES


def record(model, engine, workload, *, extrapolated=False, **values):
    case = Case(model=model, engine=engine, workload=workload)
    made = {name: metric(name, value) for name, value in values.items()}
    if extrapolated:
        made = {name: Metric(**{**vars(one), "extra": {"extrapolated": {}}}) for name, one in made.items()} | {
            "flops_per_request": made["flops_per_request"]
        }
    return CaseRecord(id=case.id, spec=case.to_json(), metrics=made)


def text_of(*cases, report=claims_report):
    return render(report(RunRecord(id="r", created_at="", suite="seeds", environment={}, cases=cases)))


SLOW = {"request_s": 1400.0, "cold_request_s": 2800.0, "flops_per_request": 300.0, "decode_tokens_per_s": 0.4}
FAST = {"request_s": 20.0, "cold_request_s": 28.0, "flops_per_request": 1.0}
NAIVE = record(DEEP, "naive", LONG, extrapolated=True, **SLOW)


def test_claimed_steady_cold_and_counted_ratios_stand_in_one_line():
    """An extrapolated side marks the ratio; the claim says whether it was timed, estimated or counted."""
    lines = text_of(NAIVE, record(DEEP, "cached", LONG, **FAST)).splitlines()
    rows = [line.split("  ") for line in lines if line.startswith("0.5B")]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    name, measured = "0.5B, 453 + 500, over naive", ["~70.0x", "~100x", "300x"]
    assert cells == [[name, "50-100x est.", *measured], [name, "350x counted", *measured]]
    assert max(map(len, lines)) <= 80


def test_eight_samples_one_after_another_are_eight_requests():
    """As those notes made them."""
    text = text_of(NAIVE, record(DEEP, "cached", LONG_8, **FAST))
    assert "~560x" in text


def test_a_claim_needs_both_of_its_cases():
    """A ratio of one side is none, and without any the report says nothing."""
    assert text_of(NAIVE).strip() == ""


def test_sizes_are_told_for_as_many_positions_as_were_claimed():
    """The cache of a short request is scaled; weights are as they are."""
    cached = record("gpt2", "cached", GPT2, kv_cache_allocated_bytes=19 * 73728.0)
    text = text_of(cached, record("gpt2", GPT2_INT8, GPT2, weight_bytes=150e6))
    assert "GPT-2, cache: 38.0 MB claimed, 75.5 MB here for 1,024 positions" in text
    assert "GPT-2, int8 weights: 163 MB claimed, 150 MB here" in text


def test_the_growth_of_a_token_s_time_stands_beside_the_claim_that_there_is_none():
    """With its interval; a case whose steps were not timed says nothing."""
    grown = metric("scaling_per_100_tokens", 0.004, interval=(-0.001, 0.009), coverage=0.95)
    case = record(DEEP, "cached", LONG)
    assert text_of(case).strip() == ""
    text = text_of(CaseRecord(id=case.id, spec=case.spec, metrics={"scaling_per_100_tokens": grown}))
    assert "0.5B, 453 + 500: 0% slower per 100 tokens claimed, +0.40% here (-0.10% to +0.90%)" in " ".join(text.split())


def test_every_claim_is_measured_by_the_suite():
    """A claim beside no case would be repeated, and not checked; growth is measured step by step."""
    measured = {case.id: case for case in SUITES["seeds"].cases}
    assert {name for claim in CLAIMS for name in (claim.slow, claim.fast)} <= set(measured)
    assert {claim.case for claim in SIZE_CLAIMS} <= set(measured)
    assert not any(measured[claim.case].requests_only for claim in FLAT_CLAIMS)


@pytest.mark.parametrize(
    "report", [lambda run: [rung_table(run.cases)], lambda run: run_report(run, Places(record=""))]
)
def test_the_table_of_rungs_marks_what_was_extrapolated(report):
    """And only that; the whole report says what the mark means."""
    text = text_of(NAIVE, record(DEEP, "cached", LONG, decode_tokens_per_s=25.0), report=report)
    assert "~0.400" in text
    assert "~25.0" not in text


def test_the_mark_is_explained():
    """Below the table that has it."""
    assert "~: extrapolated from" in text_of(NAIVE, report=lambda run: run_report(run, Places(record="")))
