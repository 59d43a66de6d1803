"""A small decode step and its shapes, and targets that several tests compile for."""

import jax
import jax.numpy as jnp
import pytest

from qwenperf.aot.topology import resolve
from qwenperf.workloads.case import Case, Workload

POSITIONS, WIDTH, VOCABULARY = 256, 256, 512


def shape(*sizes, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(sizes, dtype)


def decode_step(params, token, cache):
    """Write a row of the cache and read all of it."""
    row = params["embed"][token]
    keys = jax.lax.dynamic_update_slice(cache["keys"], row[None], (cache["length"], 0))
    scores = keys @ row
    hidden = jnp.tanh((scores[None] @ keys) @ params["w"])
    return jnp.argmax(hidden @ params["embed"].T), {"keys": keys, "length": cache["length"] + 1}


@pytest.fixture(scope="session")
def shapes():
    """Make the arguments of the step, with a cache of some positions."""

    def make(positions=POSITIONS):
        params = {"embed": shape(VOCABULARY, WIDTH), "w": shape(WIDTH, WIDTH)}
        cache = {"keys": shape(positions, WIDTH), "length": shape(dtype=jnp.int32)}
        return params, shape(dtype=jnp.int32), cache

    return make


@pytest.fixture(scope="session")
def step():
    """The step, not jitted yet."""
    return decode_step


@pytest.fixture(scope="session")
def tiny():
    """Make a case of the tiny model."""

    def make(engine="cached", *, batch=1, dtype="bf16", model="tiny"):
        work = Workload(prompt_length=8, new_tokens=8, batch=batch, dtype=dtype)
        return Case(model=model, engine=engine, workload=work)

    return make


@pytest.fixture(scope="session")
def v5e():
    """One chip that is not there."""
    return resolve("v5e-1")


@pytest.fixture(scope="session")
def cpu():
    """The machine that tests run on."""
    return resolve("cpu")
