"""Requests and streams are timed by turns, and a window that was void is repeated."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import MeasurementError
from qwenperf.lab.forms import Forms
from qwenperf.lab.metrics import Floors
from qwenperf.lab.steady import measure_steady
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.workloads.case import Workload

WORK = Workload(prompt_length=2, new_tokens=3)


class Noting:
    """Notes what it is asked for."""

    name = "noting"

    def __init__(self):
        self.asked = []

    def generate(self, tokens_BT, new_tokens):
        """Return zeros."""
        self.asked.append("request" if new_tokens > 1 else "first token")
        return np.zeros((len(tokens_BT), new_tokens), np.int32)

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros."""
        self.asked.append("stream")
        yield from np.zeros((new_tokens, len(tokens_BT)), np.int32)


class CompilingOnce(Noting):
    """Compiles in its second stream."""

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros, after a compile."""
        if self.asked.count("stream") == 1:
            jax.jit(lambda x: x * 3 + 1)(jnp.zeros(3))
        yield from super().stream(tokens_BT, new_tokens)


def measure(engine, trials=3, prompt=(0, 0), **more):
    forms = Forms(engine=engine, workload=WORK, prompt_BT=np.array([prompt], np.int32), **more)
    with CompileLog() as log:
        clock = Clock(log, now=itertools.count().__next__)
        return measure_steady(forms, clock, trials, Floors())


def test_each_request_has_its_stream_behind_it():
    """What slows the machine for a while slows both of a pair."""
    engine = Noting()
    steady = measure(engine)
    assert engine.asked == ["request", "stream"] * 3
    assert len(steady.request_s) == len(steady.ttft_s) == len(steady.stream.step_s) == 3


def test_where_only_requests_are_timed_a_first_token_stands_for_the_stream():
    """A trial of one request of minutes, and what it costs until its first token."""
    engine = Noting()
    steady = measure(engine, trials=2, requests_only=True)
    assert engine.asked == ["request", "first token"] * 2
    assert len(steady.request_s) == len(steady.ttft_s) == 2
    assert steady.stream is None


def test_a_void_names_the_trial_and_the_repetition_counts():
    """The second stream was void; all pairs were measured again, and the note says why."""
    steady = measure(CompilingOnce())
    assert steady.voids == ()
    assert [finding.code for finding in steady.findings] == ["window-repeated"]
    assert steady.findings[0].data["voids"][0].startswith("stream: trial 2: ")
    assert len(steady.request_s) == 3


class Remembering(Noting):
    """Works once for each prompt, and afterwards answers from memory."""

    def __init__(self):
        super().__init__()
        self.known, self.prompts = {}, []

    def generate(self, tokens_BT, new_tokens):
        """Return the first token, again and again."""
        self.prompts.append(tuple(tokens_BT[0].tolist()))
        if self.prompts[-1] not in self.known:
            self.asked.append("worked")
            self.known[self.prompts[-1]] = np.repeat(tokens_BT[:, :1], WORK.new_tokens, axis=1)
        return self.known[self.prompts[-1]][:, :new_tokens]


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_an_engine_that_remembers_its_answers_has_to_work(trials):
    """Each trial has another prompt, of the same tokens, however few trials there are."""
    engine = Remembering()
    prompt = (3, 1, 4, 1, 5, 9)
    engine.generate(np.array([prompt]), 3)
    measure(engine, trials=trials, prompt=prompt)
    assert engine.asked.count("worked") == 1 + trials
    assert prompt not in engine.prompts[1:]
    assert {tuple(sorted(one)) for one in engine.prompts} == {(1, 1, 3, 4, 5, 9)}


def test_where_a_request_takes_minutes_the_last_trial_is_the_one_that_is_compared():
    """It saves a request."""
    engine = Remembering()
    prompt = (3, 1, 4, 1, 5, 9)
    steady = measure(engine, trials=2, prompt=prompt, requests_only=True)
    assert engine.prompts[-2:] == [prompt, prompt]
    np.testing.assert_array_equal(steady.repeated, [[3, 3, 3]])


class Tiring(Noting):
    """Gives fewer tokens from the third request, stream or first token on."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def _left(self, what, new_tokens):
        return new_tokens // 2 if what == self.what and self.asked.count(what) > 2 else new_tokens

    def generate(self, tokens_BT, new_tokens):
        """Return zeros."""
        what = "request" if new_tokens > 1 else "first token"
        return super().generate(tokens_BT, new_tokens)[:, : self._left(what, new_tokens)]

    def stream(self, tokens_BT, new_tokens):
        """Yield zeros."""
        self.asked.append("stream")
        yield from np.zeros((self._left("stream", new_tokens), len(tokens_BT)), np.int32)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("request", r"trial 3: noting returned int32\[1, 1\] instead of integer tokens \[1, 3\]"),
        ("stream", r"trial 3: noting streamed 1 items of int32\[1\] instead of 3 of \[1\]"),
        ("first token", r"trial 3: noting returned int32\[1, 0\] instead of integer tokens \[1, 1\]"),
    ],
)
def test_a_trial_that_gives_less_than_was_asked_for_is_no_trial(what, told):
    """However right its first answer was: the message names it, and nothing is timed."""
    with pytest.raises(MeasurementError, match=told):
        measure(Tiring(what), trials=3, requests_only=what == "first token")
