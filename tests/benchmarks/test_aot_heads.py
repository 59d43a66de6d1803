"""The three ways to keep heads of half a tile compute one thing: else their estimates compare nothing."""

import importlib
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

BATCH, POSITIONS = 3, 8


@pytest.fixture(scope="module")
def heads(repository):
    sys.path.insert(0, str(repository))
    return importlib.import_module("benchmarks.aot_heads")


def stepped(heads, name):
    """Return what two steps of one form give, from an empty cache."""
    form = heads.FORMS[name]
    cache = jnp.zeros((BATCH * form.rows, POSITIONS, form.width), jnp.float32)
    draw = partial(np.random.default_rng(1).standard_normal, dtype=np.float32)
    keys, values, out = cache, cache, None
    for position in range(2):
        new = tuple(jnp.asarray(draw((BATCH, heads.KV_HEADS, heads.SIZE))) for _ in range(2))
        queries = jnp.asarray(draw((BATCH, heads.KV_HEADS, heads.GROUP, heads.SIZE)))
        out, keys, values = jax.jit(form.step)(queries, new, keys, values, jnp.int32(position))
    return np.asarray(out)


@pytest.mark.parametrize("name", ["padded to 128", "packed"])
def test_every_form_attends_to_the_same(heads, name):
    assert np.allclose(stepped(heads, name), stepped(heads, "apart"), atol=1e-5)
