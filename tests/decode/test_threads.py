"""One engine, several threads."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import numpy as np

from qwenperf.decode.build import build_engine
from qwenperf.decode.programs import Executables

THREADS = 4


def test_threads_that_share_an_engine_get_their_own_tokens_and_one_program(model, engine, prompt):
    """Each request has a state of its own, whoever gets the spare one; each program is compiled once."""
    shared = build_engine(model, "cached", capacity=16)
    compiled, barrier = [], Barrier(THREADS)

    def listen(event, _seconds, **details):
        if event.endswith("backend_compile_duration"):
            compiled.append(details.get("fun_name"))

    def request(seed):
        barrier.wait()
        return [shared.generate(prompt(1, 7, seed=seed), 9) for _ in range(10)]

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(request, range(THREADS)))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    for seed, repeated in enumerate(found):
        expected = engine("cached").generate(prompt(1, 7, seed=seed), 9)
        for tokens in repeated:
            np.testing.assert_array_equal(tokens, expected)
    assert sorted(compiled) == ["jit(clear)", "jit(generate)", "jit(new_cache)", "jit(prefill)"]


def test_threads_that_ask_for_one_program_at_a_time_get_the_same_one():
    """The first lowers and compiles it, the others wait."""
    executables, lowered, barrier = Executables(), [], Barrier(THREADS)

    def lower():
        lowered.append(True)
        time.sleep(0.05)
        return jax.jit(lambda x: x + 1).lower(1)

    def ask(_):
        barrier.wait()
        return executables.get((1,), lower)

    with ThreadPoolExecutor(THREADS) as pool:
        built = list(pool.map(ask, range(THREADS)))
    assert len(lowered) == 1
    assert all(found is built[0] for found in built)
