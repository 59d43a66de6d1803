"""What a trace shows are decode steps of one request, at each attempt the same ones."""

import resource
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.cli.traced_case import read_summary
from qwenperf.errors import RefusedCallError
from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.lab.trace import REQUESTS, trace_requests, trace_steps
from qwenperf.traces import xplane
from qwenperf.traces.tokens import per_token
from qwenperf.workloads.case import Workload

WORK = Workload(prompt_length=2, new_tokens=6)


class Counting:
    """Streams without any device work, which no profile shows, so that every capture is tried twice."""

    name = "counting"

    def __init__(self):
        self.made = []

    def generate(self, tokens_BT, new_tokens):
        """Return zeros."""
        return np.zeros((len(tokens_BT), new_tokens), np.int32)

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros, and note which."""
        for index in range(new_tokens):
            self.made.append(index)
            yield np.zeros(len(tokens_BT), np.int32)


def test_a_second_attempt_sees_the_steps_of_the_first(tmp_path):
    """Each begins a request and leaves its prefill and first step out; none runs into the next prefill."""
    engine = Counting()
    forms = Forms(engine=engine, workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    options = Options(trace_folder=str(tmp_path), session="counting", trace_steps=3)
    capture = trace_steps(forms, options)
    assert capture.findings[0].code == "trace-without-operations"
    assert engine.made == [0, 1, 2, 3, 4] * 2


class Whole(Counting):
    """Generates whole requests only."""

    stream = None

    def generate(self, tokens_BT, new_tokens):
        """Return zeros that a device made."""
        return np.asarray(jax.jit(jnp.zeros, static_argnums=(0, 1))((len(tokens_BT), new_tokens), jnp.int32))


def test_an_engine_that_cannot_step_is_traced_as_whole_requests(tmp_path):
    """Times are told per token all the same."""
    forms = Forms(engine=Whole(), workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    options = Options(trace_folder=str(tmp_path), session="whole")
    summary = trace_steps(forms, options).summary
    assert (summary["steps"], summary["tokens_per_step"]) == (1, WORK.new_tokens)
    assert per_token(summary).step_s == pytest.approx(sum(summary["step_s"]) / WORK.new_tokens)


def test_whole_requests_are_traced_of_an_engine_that_streams_too(tmp_path):
    """As they are timed: a step of the trace is a request, and makes all of its tokens."""

    class Streaming(Whole):
        stream = Counting.stream

    forms = Forms(engine=Streaming(), workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    capture = trace_requests(forms, Options(trace_folder=str(tmp_path), session="requests"))
    assert capture.summary is not None, capture.findings
    assert (capture.summary["steps"], capture.summary["tokens_per_step"]) == (REQUESTS, WORK.new_tokens)
    assert {step.name for step in xplane.read(capture.path).steps} == {"request"}
    assert read_summary(capture.path, WORK.new_tokens) == {**without_bytes(capture.summary), "of": "requests"}


def without_bytes(summary):
    return {name: value for name, value in summary.items() if name != "bytes"}


def test_over_the_quota_no_trace_is_added_and_the_finding_says_how_to_make_room(tmp_path):
    """The measurement is whole; nothing is removed behind anybody's back."""
    old = tmp_path / "old" / "plugins" / "profile" / "case"
    old.mkdir(parents=True)
    (old / "vm.xplane.pb").write_bytes(bytes(11))
    forms = Forms(engine=Working(), workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    capture = trace_steps(forms, Options(trace_folder=str(tmp_path / "run"), session="s", trace_quota_bytes=10))
    assert (capture.path, capture.findings[0].code) == (None, "trace-quota")
    assert "11 B, over the quota of 10 B" in capture.findings[0].message
    assert f"qwenperf trace prune {tmp_path}" in capture.findings[0].advice
    assert (old / "vm.xplane.pb").exists()


class Raising(Counting):
    """Raises as soon as it is traced."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def stream(self, *_):
        """Raise."""
        raise self.error


class Working(Counting):
    """Does device work at every step."""

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros that a device made."""
        for _ in range(new_tokens):
            yield np.asarray(jax.jit(jnp.zeros, static_argnums=0)(len(tokens_BT)), np.int32)


def trace(engine, folder):
    forms = Forms(engine=engine, workload=WORK, prompt_BT=np.zeros((1, 2), np.int32))
    return trace_steps(forms, Options(trace_folder=str(folder), session="session", trace_steps=3))


def test_a_folder_that_cannot_be_written_costs_the_trace_only(tmp_path):
    """The measurement came first and is kept; the reason is told."""
    (tmp_path / "file").write_text("in the way")
    capture = trace(Working(), tmp_path / "file")
    assert (capture.path, capture.findings[0].code) == (None, "trace-lost")
    assert "file" in capture.findings[0].message


def test_a_full_disk_costs_the_trace_only(tmp_path):
    """A profile that the system refuses to store is a finding, whoever notices it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        capture = trace(Working(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        # JAX 0.10 keeps a profile open that it could not store: a measuring process ends here, this one goes on.
        with suppress(RuntimeError):
            jax.profiler.stop_trace()
    assert capture.path is None
    assert capture.findings[0].code.startswith("trace-")


def test_a_bug_in_a_traced_step_costs_the_trace_only(tmp_path):
    """Any error is told by its name."""
    assert "ValueError: broken" in trace(Raising(ValueError("broken")), tmp_path).findings[0].message


def test_a_refused_call_is_passed_on(tmp_path):
    """It is evidence about the engine."""
    with pytest.raises(RefusedCallError):
        trace(Raising(RefusedCallError("other shape")), tmp_path)
