"""A Flax module with ``apply(params, ids, kv_caches=..., position_offset=...) -> (logits, kv_caches)``."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from qwenperf.adapters import flax_engine

PROMPT = [3, 1, 4, 1, 5]
CAPACITY, WIDTH = 32, 8


class Attention(nn.Module):
    """One attention layer over a cache of keys and values, or over the sequence where there is none."""

    @nn.compact
    def __call__(self, ids, kv_caches=None, position_offset=0):
        """Return logits [B, T, V] and the caches after ``ids``."""
        hidden = nn.Embed(17, WIDTH)(ids)
        query, key, value = (nn.Dense(WIDTH, name=name)(hidden) for name in ("query", "key", "value"))
        if kv_caches is not None:
            start = (0, position_offset, 0)
            pairs = zip(kv_caches, (key, value), strict=True)
            key, value = kv_caches = [jax.lax.dynamic_update_slice(old, new, start) for old, new in pairs]
        here = position_offset + jnp.arange(ids.shape[1])
        mask = jnp.arange(key.shape[1])[None, :] <= here[:, None]
        scores = jnp.where(mask[None], jnp.einsum("btd,bsd->bts", query, key), -1e9)
        mixed = jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores), value)
        return nn.Dense(17, name="head")(mixed + hidden), kv_caches


@pytest.fixture(scope="module")
def engine():
    """Return the model as an engine: prefill and step jitted, caches donated."""
    model = Attention()
    params = model.init(jax.random.key(1), jnp.zeros((1, 2), jnp.int32))
    return flax_engine(model, params, make_caches=lambda batch: [jnp.zeros((batch, CAPACITY, WIDTH))] * 2)


def test_no_step_recompiles(qwenperf, engine):
    """Prefill and the first steps compile; no later one does."""
    qwenperf.no_recompiles(engine, PROMPT, 8)


def test_cached_tokens_are_those_of_the_whole_sequence(qwenperf, engine):
    """One apply without caches is the truth."""
    qwenperf.tokens_match(engine, PROMPT, 8)


@pytest.mark.perf
def test_it_is_fast_enough(qwenperf, engine):
    """A floor in tokens per second; refused under pytest-xdist."""
    qwenperf.at_least(10, "tokens/s", engine, PROMPT, 24)
