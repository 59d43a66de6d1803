"""Any ``generate(tokens, new_tokens)``: here a jitted loop over one fixed buffer."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

PROMPT = [3, 1, 4, 1, 5]
TABLE = jax.random.normal(jax.random.key(0), (17, 8), jnp.float32)


@jax.jit
def uncached(tokens):
    """Logits [B, T, V] of a toy model: a token's vector plus half of what came before it."""
    seen = jax.lax.associative_scan(lambda old, new: 0.5 * old + new, TABLE[tokens], axis=1)
    return seen @ TABLE.T


@partial(jax.jit, static_argnums=1)
def generate(tokens, new_tokens):
    """Return prompt and new tokens; one compile for each pair of lengths."""
    length = tokens.shape[1]
    buffer = jnp.pad(tokens, ((0, 0), (0, new_tokens)))

    def append(index, buffer):
        best = jnp.argmax(uncached(buffer)[:, index - 1], axis=-1).astype(buffer.dtype)
        return buffer.at[:, index].set(best)

    return jax.lax.fori_loop(length, length + new_tokens, append, buffer)


def test_nothing_is_compiled_twice(qwenperf):
    """The first call compiles, the second does not."""
    qwenperf.no_recompiles(generate, jnp.array([PROMPT]), 8)


def test_tokens_are_those_of_uncached_decoding(qwenperf):
    """A function tells no logits, so the truth is handed over."""
    qwenperf.tokens_match(generate, PROMPT, 8, uncached=uncached)


@pytest.mark.perf
def test_it_is_fast_enough(qwenperf):
    """A floor in tokens per second; refused under pytest-xdist."""
    qwenperf.at_least(10, "tokens/s", generate, PROMPT, 8)
