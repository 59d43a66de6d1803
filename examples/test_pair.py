"""A ``prefill``/``decode_step`` pair with a cache that is allocated once and updated in place."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

PROMPT = [3, 1, 4, 1, 5]
TABLE = jax.random.normal(jax.random.key(0), (17, 8), jnp.float32)
CAPACITY = 32


def read(cache, length):
    """Logits [B, V] of a toy model: the vectors of all tokens so far, older ones weigh less."""
    age = length - 1 - jnp.arange(CAPACITY)
    weight = jnp.where(age >= 0, jnp.exp(-0.5 * age.astype(jnp.float32)), 0.0)
    return jnp.sum(cache * weight[None, :, None], axis=1) @ TABLE.T


@jax.jit
def prefill(tokens):
    """Read the prompt into a new cache."""
    batch, length = tokens.shape
    cache = jnp.zeros((batch, CAPACITY, 8)).at[:, :length].set(TABLE[tokens])
    return read(cache, length), (cache, jnp.int32(length))


@partial(jax.jit, donate_argnames="state")
def decode_step(token, state):
    """Append one token a row."""
    cache, length = state
    cache = jax.lax.dynamic_update_slice(cache, TABLE[token][:, None], (0, length, 0))
    return read(cache, length + 1), (cache, length + 1)


def test_no_step_recompiles(qwenperf):
    """Prefill and the first steps compile; no later one does."""
    qwenperf.no_recompiles((prefill, decode_step), PROMPT, 8)


def test_cached_tokens_are_those_of_prefill_alone(qwenperf):
    """Prefill on every prefix is the truth."""
    qwenperf.tokens_match((prefill, decode_step), PROMPT, 8)


@pytest.mark.perf
def test_it_passes_every_gate_and_is_fast_enough(qwenperf):
    """Shapes, tokens, rotary, cache in place, flat in position; then a floor."""
    qwenperf.passes((prefill, decode_step), PROMPT, 8)
    qwenperf.at_least(10, "tokens/s", (prefill, decode_step), PROMPT, 8)
