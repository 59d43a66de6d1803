"""The clock waits for the device, and a window with a compile in it is no measurement."""

import jax
import numpy as np
import pytest

from qwenperf.errors import QwenperfError, RefusedCallError, UsageError
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog


class Ticks:
    """A clock that moves on when told, and a block function that notes what it was given and takes 10 s."""

    def __init__(self):
        self.time = 0.0
        self.blocked = []

    def now(self):
        """Return the time."""
        return self.time

    def work(self, seconds, result="out"):
        """Let ``seconds`` pass."""
        self.time += seconds
        return result

    def block(self, outputs):
        """Note ``outputs`` and let 10 s pass."""
        self.blocked.append(outputs)
        self.time += 10.0


@pytest.fixture
def ticks():
    return Ticks()


@pytest.fixture
def clock(ticks):
    return Clock(CompileLog(), ticks.now, ticks.block)


def decode(step):
    """Generate with a sequence that grows: each length is a program of its own."""

    def request(new_tokens):
        tokens = np.zeros(3, np.int32)
        for _ in range(new_tokens):
            step(tokens)
            tokens = np.append(tokens, np.int32(0))

    return request


def test_the_time_ends_when_every_output_is_there(ticks, clock):
    result, seconds = clock.call(lambda: ticks.work(1.0, result={"a": 1, "b": [2]}))
    assert result == {"a": 1, "b": [2]}
    assert ticks.blocked == [{"a": 1, "b": [2]}]
    assert seconds == 11.0


def test_the_default_block_waits_for_work_that_was_only_dispatched():
    product = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y @ x, x))
    big = jax.block_until_ready(jax.numpy.full((700, 700), 1e-3))
    with CompileLog() as log:
        result, _ = Clock(log).call(lambda: {"deep": [product(big)]})
    assert result["deep"][0].is_ready()


def test_a_window_has_one_sample_for_each_trial_and_the_last_result(ticks, clock):
    answers = iter("xyz")
    window = clock.window(lambda: ticks.work(0.5, next(answers)), trials=3)
    assert window.samples_s == (10.5, 10.5, 10.5)
    assert window.result == "z"
    assert window.valid


def test_a_warm_up_with_fewer_tokens_than_the_window_voids_it_and_names_the_function():
    request = decode(jax.jit(lambda tokens: tokens.sum(), keep_unused=True))
    with CompileLog() as log:
        clock = Clock(log)
        with log.phase("warmup"):
            request(5)
        window = clock.window(lambda: request(15), trials=2)
    assert not window.valid
    assert len(window.voids) == log.count("steady") == 10
    assert window.voids[0].startswith("trial 1: <lambda> compiled at ")
    assert "tokens shape i32[7] -> i32[8]" in window.voids[0]
    assert "test_clock.py:" in window.voids[0]


def test_a_warm_up_with_as_many_tokens_as_the_window_is_fine():
    request = decode(jax.jit(lambda tokens: tokens.max()))
    with CompileLog() as log:
        clock = Clock(log)
        with log.phase("warmup"):
            request(15)
        window = clock.window(lambda: request(15), trials=2)
    assert window.valid
    assert log.count("warmup") == 15
    assert log.count("steady") == 0


def test_a_program_from_the_persistent_cache_voids_the_window_too_and_says_so(ticks):
    log = CompileLog()

    def load():
        jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
        jax.monitoring.record_event_duration_secs(
            "/jax/core/compile/backend_compile_duration", 0.002, fun_name="jit(step)"
        )

    with log:
        window = Clock(log, ticks.now, ticks.block).window(load, trials=1)
    assert len(window.voids) == 1
    assert "step came from the persistent cache" in window.voids[0]


def test_a_sample_faster_than_the_roofline_allows_voids_the_window(ticks, clock):
    seconds = iter([1.0, 0.0])
    window = clock.window(lambda: ticks.work(next(seconds)), trials=2, floor_s=10.5)
    assert len(window.voids) == 1
    assert window.voids[0].startswith("trial 2: 10.0 s, faster than the 10.5 s that the roofline allows")


def test_a_stream_is_timed_item_by_item_and_blocked_on_each(ticks, clock):
    def stream():
        for token, seconds in ((7, 1.0), (8, 2.0), (9, 3.0)):
            yield ticks.work(seconds, token)

    window = clock.stream(stream, trials=2)
    assert window.first_s == (11.0, 11.0)
    assert window.step_s == ((12.0, 13.0), (12.0, 13.0))
    assert window.items == (7, 8, 9)
    assert ticks.blocked == [7, 8, 9, 7, 8, 9]


def test_tokens_that_come_several_at_a_time_are_as_fast_as_their_mean(ticks, clock):
    """An engine may work out four at once: what the roofline forbids is all of them in less than four steps take."""

    def stream():
        yield from (ticks.work(seconds) for seconds in (1.0, 1.0, 31.0, 1.0))

    assert clock.stream(stream, trials=1, floor_s=18.0).valid
    (told,) = clock.stream(stream, trials=1, floor_s=25.0).voids
    assert told.startswith("trial 1: a step in the mean: 21.0 s, faster than the 25.0 s that the roofline allows")


def test_a_compile_within_a_stream_voids_it():
    step = jax.jit(lambda tokens: tokens.min())
    with CompileLog() as log:
        window = Clock(log).stream(lambda: (step(np.zeros(n, np.int32)) for n in (4, 5)), trials=1)
    assert len(window.voids) == 2
    assert {event.phase for event in log.events} == {"steady"}


def test_a_refused_call_stops_the_window_with_its_arguments_named():
    compiled = jax.jit(lambda cache: cache + 1).lower(np.zeros(4, np.float32)).compile()
    with CompileLog() as log, pytest.raises(RefusedCallError, match=r"cache shape f32\[4\] -> f32\[5\]"):
        Clock(log).window(lambda: compiled(np.zeros(5, np.float32)), trials=1)
    assert (log.events[-1].refused, log.events[-1].phase) == (True, "steady")


def test_what_cannot_be_timed_is_an_error(clock):
    with pytest.raises(UsageError, match="0 trials"):
        clock.window(lambda: None, trials=0)
    with pytest.raises(QwenperfError, match="without an item"):
        clock.stream(lambda: (), trials=1)
