"""Any engine is measured in declared phases, and what is wrong with it becomes evidence."""

import dataclasses
import importlib.util
import itertools
import time
from pathlib import Path

import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.engine import EngineFacts
from qwenperf.errors import MeasurementError
from qwenperf.gate import scaling
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.registry import load_model
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import Roofline
from qwenperf.workloads.case import Workload

_SPEC = importlib.util.spec_from_file_location("engines_by_hand", Path(__file__).with_name("engines.py"))
engines = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(engines)

WORK = Workload(prompt_length=4, new_tokens=6, batch=2)
PROMPT = np.arange(8, dtype=np.int32).reshape(2, 4)
ROOFLINE = Roofline(bytes_per_s=2e10, flops_per_s=1e12)


def slowing_down():
    """Return a clock that goes by less at each look: whatever is timed first takes longer than what comes next."""
    return itertools.accumulate(look * 1e-6 for look in range(10_000, 0, -1)).__next__


def measure(engine, work=WORK, *, trials=2, roofline=None, on_phase=lambda _: None, now=time.perf_counter, **more):
    with CompileLog() as log:
        options = Options(trials=trials, **more)
        return measure_engine(
            engine, work, PROMPT, log=log, clock=Clock(log, now), options=options, roofline=roofline, on_phase=on_phase
        )


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """The tiny model's fastest rung, measured with everything."""
    engine = build_engine(load_model("tiny"), "cached", capacity=28)
    phases = []
    folder = tmp_path_factory.mktemp("run")
    more = {"trace_folder": str(folder), "session": "tiny", "trace_steps": 2, "now": slowing_down()}
    work = Workload(prompt_length=4, new_tokens=24, batch=2)
    record = measure(engine, work, trials=5, roofline=lambda: ROOFLINE, on_phase=phases.append, **more)
    return record, phases, folder


def test_the_phases_come_in_their_order(cached):
    """Nothing comes between warm-up and steady; the profiler, which slows what follows, last."""
    assert cached[1] == ["cold", "roofline", "warmup", "steady", "tokens", "trace"]


def test_every_metric_of_the_registry_is_there(cached):
    """An engine that offers everything has all metrics but those of mere steps, with the registry's units."""
    record = cached[0]
    assert set(record.metrics) == set(REGISTRY) - {"call_s", "calls_per_s", "call_tokens_per_s"}
    assert all(metric.unit == REGISTRY[name].unit for name, metric in record.metrics.items())
    assert record.id == "cached/b2-p4-n24-f32"


def test_a_good_engine_compiles_only_when_cold_and_its_tokens_are_equal(cached):
    """Programs come in the cold phase, none later; steps and tokens agree with uncached decoding."""
    record = cached[0]
    assert record.metrics["compiles_cold"].value > 0
    assert record.metrics["compiles_steady"].value == 0
    assert record.evidence.voids == ()
    assert record.evidence.divergence.equal
    assert record.metrics["max_logit_error"].value <= record.evidence.divergence.logit_tolerance
    assert len(record.metrics["request_s"].samples) == 5


def test_the_stream_says_which_positions_its_steps_wrote(cached):
    """The first step after the first token writes behind the prompt."""
    stream = cached[0].evidence.stream
    assert stream.positions == tuple(range(4, 27))
    assert [len(trial) for trial in stream.step_s] == [23] * 5


def test_the_trace_is_beside_the_record(cached):
    """The trace is named relative to the run's folder, and is not empty."""
    record, _, folder = cached
    assert record.trace.startswith("plugins/profile/tiny/")
    assert (folder / record.trace).stat().st_size > 0
    assert record.evidence.trace_summary


def test_uncounted_work_leaves_no_compiles(cached):
    """What is compiled to look at the engine, such as the uncached forward, is not charged to it."""
    assert {event.phase for event in cached[0].evidence.compiles} <= {"cold", "warmup", "steady"}


def test_steps_alone_are_enough_for_latencies_and_logits():
    """An engine with prefill and decode_step is streamed from outside."""
    record = measure(engines.Markov())
    assert record.evidence.divergence.equal
    assert record.metrics["max_logit_error"].value == 0
    assert {"itl_p50_s", "ttft_s", "scaling_per_100_tokens"} <= set(record.metrics)
    assert "mbu" not in record.metrics


@pytest.mark.parametrize(("told", "voids"), [(4, 0), (None, 0), (2, 2)])
def test_an_engine_over_several_devices_is_held_to_the_roofline_of_all(monkeypatch, told, voids):
    """Of as many as it says, or else as its arrays lie on: by that of fewer it is faster than is possible."""

    class Divided(engines.Markov):
        def facts(self, *_):
            return EngineFacts(bytes_per_step=1_500_000, devices=told)

    monkeypatch.setattr("qwenperf.lab.measure_engine.devices_used", lambda: 4)
    # One of four devices needs 2/3 s a step and 4 s a request; this clock shows 5 s, whatever is timed.
    # One of two devices needs 8 s a request.
    roofline = Roofline(bytes_per_s=375_000.0, flops_per_s=1.0, extra={"last_level_cache_bytes": 1_000})
    record = measure(Divided(), roofline=lambda: roofline, now=itertools.count(0, 5).__next__)
    assert len([void for void in record.evidence.voids if "roofline allows" in void]) == voids


def test_a_bare_function_still_has_requests_and_first_tokens():
    """Less offered is less evidence, never invented evidence."""
    record = measure(engines.Bare())
    assert {"request_s", "ttft_s", "cold_request_s"} <= set(record.metrics)
    assert "itl_p50_s" not in record.metrics
    assert record.evidence.divergence is None
    assert "tokens_equal" not in record.metrics
    assert record.evidence.tokens.generated == ((0,) * 6,) * 2


def test_a_compile_in_the_steady_window_voids_it_and_is_evidence():
    """The window is tried again, then its times are left out and the function is named."""
    record = measure(engines.Recompiling())
    assert "request_s" not in record.metrics
    assert "decode_tokens_per_s" not in record.metrics
    assert record.metrics["compiles_steady"].value == 4
    assert {event.function for event in record.evidence.compiles if event.phase == "steady"} == {"grow"}
    assert any("grow" in void for void in record.evidence.voids)
    assert record.evidence.divergence.equal


def test_a_window_that_was_void_once_is_repeated():
    """One late compile costs a repetition, not the measurement; it stays in the evidence."""
    engine = engines.Recompiling()
    grow = engines.grow
    try:
        engines.grow = lambda cache: grow(cache) if engine.requests == 2 else None
        grow.clear_cache()
        record = measure(engine)
    finally:
        engines.grow = grow
    assert record.metrics["compiles_steady"].value == 1
    assert len(record.metrics["request_s"].samples) == 2
    assert "window-repeated" in [finding.code for finding in record.findings]


def test_a_refused_call_ends_the_measurement_and_is_evidence():
    """A call that an executable refuses is recorded like a recompile, with both shapes."""
    record = measure(engines.Refused())
    refused = [event for event in record.evidence.compiles if event.refused]
    assert [event.phase for event in refused] == ["steady"]
    assert "9,4" in refused[0].causes[0].after
    assert record.metrics["cold_request_s"].value > 0
    assert "request_s" not in record.metrics
    assert "refused" in record.evidence.voids[0]


def test_a_stream_with_other_tokens_is_a_divergence():
    """All forms are compared, and the one that differs is named."""
    divergence = measure(engines.OtherStream()).evidence.divergence
    assert (divergence.equal, divergence.position, divergence.extra["form"]) == (False, 3, "stream")


def test_steps_that_look_at_the_wrong_place_are_found():
    """Tokens differ, far beyond rounding."""
    record = measure(engines.OffByOne())
    divergence = record.evidence.divergence
    assert not divergence.equal
    assert not divergence.near_tie
    assert record.metrics["tokens_equal"].value == divergence.position / WORK.new_tokens
    assert divergence.max_logit_error > divergence.logit_tolerance


@pytest.mark.parametrize(
    ("engine", "seen"), [(engines.WrongShape(), r"int32\[2, 10\]"), (engines.WrongDtype(), r"float32\[2, 6\]")]
)
def test_what_is_no_answer_is_refused(engine, seen):
    """Tokens of another shape or type are an error that says what was seen."""
    with pytest.raises(MeasurementError, match=rf"{engine.name} returned {seen} instead of integer tokens \[2, 6\]"):
        measure(engine)


@pytest.mark.parametrize("form", ["request", "stream"])
def test_an_engine_that_does_less_once_it_is_warm_is_refused_and_not_fast(form):
    """Its cold request is whole; the second, and the stream, stop at half."""
    engine = engines.OtherStream()
    whole, stream = engine.generate, engine.stream
    if form == "request":
        engine.generate = lambda tokens, new: whole(tokens, new)[:, : new if engine.requests == 1 else new // 2]
        told = r"warm-up: other-stream returned int32\[2, 3\] instead of integer tokens \[2, 6\]"
    else:
        engine.stream = lambda tokens, new: itertools.islice(stream(tokens, new), new // 2)
        told = r"warm-up: other-stream streamed 3 items of int32\[2\] instead of 6 of \[2\]"
    with pytest.raises(MeasurementError, match=told):
        measure(engine)


def test_the_warm_engine_s_own_answer_to_the_compared_prompt_is_compared():
    """Trials have other prompts; one more request, which is not timed, has this one."""
    engine = engines.Markov()
    whole = engine.generate
    # From the second request for it on: the first is the cold one, and every trial's prompt is another.
    seen = []

    def generate(tokens, new):
        seen.append(bool((tokens == PROMPT).all()))
        return (np.asarray(whole(tokens, new)) + (seen[-1] and sum(seen) > 2)) % engines.VOCAB

    engine.generate = generate
    divergence = measure(engine).evidence.divergence
    assert (divergence.equal, divergence.extra["form"]) == (False, "repeat")


def test_a_slow_engine_is_timed_less_often():
    """The budget of the steady phase ends the trials, after two at least."""
    record = measure(engines.Markov(), trials=50, steady_budget_s=1e-6)
    assert len(record.metrics["request_s"].samples) == 2


def test_a_fast_engine_is_timed_more_often():
    """Requests of microseconds go on until the least time is full, or the most trials are reached."""
    record = measure(engines.Markov(), trials=3, trials_most=7, steady_least_s=60.0)
    assert len(record.metrics["request_s"].samples) == 7


def test_where_only_requests_are_timed_the_cold_one_is_their_warm_up():
    """Whole requests: one cold, and the trials. First tokens: one to warm up, and the trials. Streams: none."""
    engine = engines.OtherStream()
    record = measure(engine, requests_only=True, steady_budget_s=1e-6)
    assert engine.requests == 1 + 1 + 2 * 2
    assert record.evidence.stream is None
    assert {"cold_request_s", "request_s", "ttft_s", "request_tokens_per_s"} <= set(record.metrics)
    assert record.evidence.divergence.equal
    spec = {**record.spec, "requests_only": True}
    verdict = scaling.judge(dataclasses.replace(record, spec=spec), CaseBudget())
    assert (verdict.outcome.value, verdict.summary) == ("skipped", "the case times whole requests only")
