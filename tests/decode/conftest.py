"""One tiny model and one engine a rung for all tests of this folder: each program compiles once."""

from functools import cache, partial

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.programs import describe
from qwenperf.models.decoder import logits
from qwenperf.models.registry import load_model

CAPACITY = 16


@pytest.fixture(scope="session")
def model():
    return load_model("tiny")


@pytest.fixture(scope="session")
def engine(model):
    """Return the engine of a rung; the same one each time."""
    return cache(partial(build_engine, model, capacity=CAPACITY))


@pytest.fixture(scope="session")
def truth(model):
    """Return logits [B, T, V] by one uncached forward pass, which knows nothing of engines."""
    run = jax.jit(partial(logits, config=model.config))
    return lambda tokens: np.asarray(run(model.params, tokens_BT=np.asarray(tokens, np.int32)))


@pytest.fixture(scope="session")
def prompt(model):
    """Return a prompt [batch, length] of seeded tokens."""

    def make(batch, length, seed=0):
        return np.random.default_rng([seed, batch, length]).integers(0, model.config.vocab_size, (batch, length))

    return make


@pytest.fixture(scope="session")
def program_of():
    """Return one program of an engine's requests, and compile none of the others."""

    def compiled(engine, name, batch, prompt_length, new_tokens):
        planned = next(one for one in engine.plan(batch, prompt_length, new_tokens) if one.name == name)
        return describe(name, planned.build())

    return compiled
