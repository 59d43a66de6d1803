"""A request that would take hours is measured at its ends, and what is not measured says so."""

import dataclasses

import numpy as np
import pytest

from qwenperf.decode.engine import EngineFacts
from qwenperf.errors import ConfigError
from qwenperf.gate.tokens import judge
from qwenperf.lab.divergence import compare
from qwenperf.lab.extrapolate import EXTRAPOLATED, ends, extrapolate
from qwenperf.lab.logits import Logits
from qwenperf.lab.options import Options
from qwenperf.lab.runner import run_case
from qwenperf.schema.codec import case_loads, dumps
from qwenperf.schema.records import CaseRecord, Divergence, Evidence, Outcome, metric
from qwenperf.workloads.case import Case, Workload

CASE = Case(
    model="tiny", engine="naive", workload=Workload(prompt_length=10, new_tokens=100), measured_tokens=4, trials=2
)


def flops(start, count):
    """A token at length n costs n + n**2 / 50."""
    return sum(n + n**2 / 50 for n in range(start, start + count))


def seconds(start, count):
    """A token takes 1 s and 0.01 s a FLOP."""
    return count + flops(start, count) / 100


def record(start, *, once_s=0.0, compile_s=2.0):
    request_s, values = seconds(start, 4), {"compile_s": 4 * compile_s, "compiles_cold": 4}
    values |= {"compiles_warmup": 0, "compiles_steady": 0, "cache_hits": 0, "flops_per_request": flops(start, 4)}
    values |= {"cold_request_s": request_s + 4 * compile_s + once_s, "ttft_s": seconds(start, 1)}
    made = {name: metric(name, value) for name, value in values.items()}
    interval = (0.9 * request_s, 1.1 * request_s)
    made["request_s"] = metric("request_s", request_s, interval=interval, coverage=0.5)
    error = start * 1e-6
    seen = Divergence(equal=True, reference="uncached", max_logit_error=error, logit_tolerance=1, worst_step=start)
    return CaseRecord(id="", spec={}, metrics=made, evidence=Evidence(divergence=seen))


@pytest.fixture(scope="module")
def whole():
    """Both ends of a request whose every token is known."""
    facts = EngineFacts(flops_per_request=flops(10, 100))
    return extrapolate(CASE, facts, record(10, once_s=3.0), record(106))


def test_times_that_follow_the_arithmetic_are_extrapolated_exactly(whole):
    """Fixed and quadratic parts alike; compiles are one a length, and what was cold once counts once."""
    values = {name: one.value for name, one in whole.metrics.items()}
    assert values["request_s"] == pytest.approx(seconds(10, 100))
    assert values["tpot_s"] == pytest.approx((seconds(10, 100) - seconds(10, 1)) / 99)
    assert values["decode_tokens_per_s"] == pytest.approx(1 / values["tpot_s"])
    assert values["cold_request_s"] == pytest.approx(seconds(10, 100) + 100 * 2.0 + 3.0)
    assert (values["compiles_cold"], values["compile_s"]) == (100, 200)


def test_an_engine_of_one_shape_has_compiled_all_at_the_start():
    """What the other end compiles is for a prompt of that length, which no request of this one has."""
    facts, case = EngineFacts(flops_per_request=flops(10, 100)), dataclasses.replace(CASE, engine="padded")
    values = extrapolate(case, facts, record(10, once_s=3.0), record(106)).metrics
    assert values["request_s"].value == pytest.approx(seconds(10, 100))
    assert values["cold_request_s"].value == pytest.approx(seconds(10, 100) + 4 * 2.0 + 3.0)
    assert (values["compiles_cold"].value, values["compile_s"].value) == (4, 8)


def test_without_counts_the_middle_of_both_ends_is_taken():
    """An engine may not know its FLOPs."""
    ends = [record(10), record(106)]
    found = extrapolate(CASE, EngineFacts(), *ends).metrics["request_s"].value
    assert found == pytest.approx(25 * sum(one.metrics["request_s"].value for one in ends) / 2)


def test_what_was_not_measured_whole_says_so(whole):
    """Each metric of its own, and the case in a sentence; what was measured says nothing."""
    marked = {name for name, one in whole.metrics.items() if EXTRAPOLATED in one.extra}
    timed = {"request_s", "request_tokens_per_s", "tpot_s", "decode_tokens_per_s", "cold_request_s"}
    assert marked == timed | {"cold_tokens_per_s", "compile_s", "compiles_cold"}
    note = whole.findings[-1]
    assert note.code == EXTRAPOLATED
    assert "measured on the first 4 and the last 4 of 100 new tokens" in note.message
    assert case_loads(dumps(whole), "") == whole


def test_the_range_is_as_wide_as_both_ends(whole):
    """Nothing is surer than what it was made of."""
    time = whole.metrics["request_s"]
    assert time.interval == pytest.approx((0.9 * time.value, 1.1 * time.value))
    assert time.coverage == 0.5


def test_the_worse_end_is_the_evidence(whole):
    """Logits are as far off as where they are furthest off."""
    assert whole.evidence.divergence.worst_step == 106


@pytest.mark.parametrize("engine", ["naive", "naive+weights=int8"])
def test_no_number_at_the_far_end_fails(engine):
    """Although at the start a token differs, which approximate settings excuse, and is told first of two alike."""
    case = dataclasses.replace(CASE, engine=engine)
    uncached = np.tile(np.array([3, 2.9, 1], np.float32), (1, 4, 1))
    near, far, tokens = uncached.copy(), uncached.copy(), np.array([[0, 1, 0, 0]])
    near[0, 1, 1] = far[0, 1, 1] = 3.1
    far[0, 2, 2] = np.nan
    ends = [
        dataclasses.replace(
            record(start),
            evidence=Evidence(divergence=compare(tokens, Logits(uncached=uncached, engine=engine), "f32")),
        )
        for start, engine in ((10, near), (106, far))
    ]
    verdict = judge(extrapolate(case, EngineFacts(), *ends))
    assert verdict.outcome is Outcome.FAIL
    assert "NaN among its logits" in verdict.summary


@pytest.mark.parametrize("high", [1e3, 1e4])
def test_a_start_that_may_take_all_the_time_leaves_no_time_per_token(high):
    """Its rate would have no upper bound; the record says why it has none, and can be read back."""
    start = record(10)
    whole_low = extrapolate(CASE, EngineFacts(), start, record(106)).metrics["request_s"].interval[0]
    first = dataclasses.replace(start.metrics["ttft_s"], interval=(0.5, whole_low if high == 1e3 else high))
    start = dataclasses.replace(start, metrics={**start.metrics, "ttft_s": first})
    found = extrapolate(CASE, EngineFacts(), start, record(106))
    assert {"tpot_s", "decode_tokens_per_s"}.isdisjoint(found.metrics)
    assert "request_tokens_per_s" in found.metrics
    assert "no-decode-time" in {finding.code for finding in found.findings}
    assert case_loads(dumps(found), "") == found


def test_an_end_without_a_time_gives_none():
    """A void window is no number, also not half of one."""
    broken = record(106)
    broken = dataclasses.replace(broken, metrics={k: v for k, v in broken.metrics.items() if k != "request_s"})
    assert "request_s" not in extrapolate(CASE, EngineFacts(), record(10), broken).metrics


def test_the_ends_are_those_of_the_request():
    """The last of them begins where only so many tokens are left."""
    assert [(work.prompt_length, work.new_tokens) for work in ends(CASE)] == [(10, 4), (106, 4)]


@pytest.mark.parametrize("measured", [1, 51, -4])
def test_too_little_or_too_much_is_refused(measured):
    """One token has no time of its own, and all of them need no extrapolation."""
    with pytest.raises(ConfigError, match=f"measured_tokens is {measured} of 100"):
        dataclasses.replace(CASE, measured_tokens=measured)


@pytest.mark.slow
def test_a_real_engine_is_measured_at_both_ends():
    """Compiles are those of the lengths that were run, times one a length; its tokens were compared at both."""
    found = run_case(CASE, Options(trials=2, roofline=False, steady_budget_s=0.1))
    assert found.id == "tiny/naive/b1-p10-n100-f32"
    assert found.metrics["compiles_cold"].value >= 100
    assert {event.phase for event in found.evidence.compiles} == {"cold"}
    assert found.metrics["tokens_equal"].value == 1
    assert found.metrics["request_s"].extra[EXTRAPOLATED]["share_of_end"] == pytest.approx(0.5, abs=0.05)
