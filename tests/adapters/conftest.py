"""A toy decoder, small enough to read: next token from a decayed mean of the tokens' vectors so far."""

from types import SimpleNamespace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

VOCABULARY, WIDTH, CAPACITY = 17, 8, 24


def _table():
    return jax.random.normal(jax.random.key(0), (VOCABULARY, WIDTH), jnp.float32)


def _read(table, cache_BCD, length):
    age = length - 1 - jnp.arange(cache_BCD.shape[1])
    weight = jnp.where(age >= 0, jnp.exp(-0.4 * age.astype(jnp.float32)), 0.0)
    return jnp.einsum("c,bcd,vd->bv", weight, cache_BCD, table)


@pytest.fixture(scope="session")
def toy():
    """Prefill, decode_step and the uncached logits of one toy model, all jitted, the cache donated."""
    table = _table()

    @jax.jit
    def prefill(tokens_BT):
        batch, length = tokens_BT.shape
        cache = jnp.zeros((batch, CAPACITY, WIDTH)).at[:, :length].set(table[tokens_BT])
        return _read(table, cache, length), (cache, jnp.int32(length))

    @jax.jit
    def uncached_logits(tokens_BT):
        lengths = jnp.arange(1, tokens_BT.shape[1] + 1)
        return jax.vmap(lambda n: _read(table, table[tokens_BT], n), out_axes=1)(lengths)

    def decode_step(tokens_B, state):
        cache, position = state
        cache = jax.lax.dynamic_update_slice(cache, table[tokens_B][:, None], (0, position, 0))
        return _read(table, cache, position + 1), (cache, position + 1)

    def generate(tokens_BT, new_tokens):
        tokens = np.asarray(tokens_BT)
        for _ in range(new_tokens):
            best = np.asarray(uncached_logits(tokens)[:, -1]).argmax(-1)
            tokens = np.concatenate([tokens, best[:, None].astype(np.int32)], axis=1)
        return tokens

    step = jax.jit(decode_step, donate_argnums=1)
    return SimpleNamespace(prefill=prefill, decode_step=step, uncached_logits=uncached_logits, generate=generate)


class Toy(nn.Module):
    """The toy as a ``flax.linen`` module with caches and an offset."""

    @nn.compact
    def __call__(self, ids, kv_caches=None, position_offset=0):
        """Return logits and caches."""
        table = self.param("table", lambda _: _table())
        new = table[ids]
        if kv_caches is None:
            lengths = jnp.arange(1, ids.shape[1] + 1)
            return jax.vmap(lambda n: _read(table, new, n), out_axes=1)(lengths), None
        cache = jax.lax.dynamic_update_slice(kv_caches[0], new, (0, position_offset, 0))
        return _read(table, cache, position_offset + ids.shape[1])[:, None], [cache]


@pytest.fixture(scope="session")
def flax_toy():
    model = Toy()
    return SimpleNamespace(
        model=model,
        params=model.init(jax.random.key(1), jnp.zeros((1, 2), jnp.int32)),
        make_caches=lambda batch: [jnp.zeros((batch, CAPACITY, WIDTH))],
    )


PROMPT = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.int32)


@pytest.fixture
def prompt():
    return PROMPT
