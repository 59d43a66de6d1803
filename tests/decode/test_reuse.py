"""What a request leaves to the next one: its arrays, and none of its numbers, whatever became of them."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.generator import build_generator
from qwenperf.decode.plan import CLEAR
from qwenperf.decode.state import KVCache, byte_size
from qwenperf.decode.step import decode_step
from qwenperf.models.config import ModelConfig
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

CAPACITY = 14
SHAPE = PRESETS["tiny"] | {
    "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 64, "tie_word_embeddings": False,
}  # fmt: skip
BAD = 9
"""The token whose numbers are none."""
SOUND = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
RAGGED = [[1, 2, 3, 4], [5]]
SPOILT = np.array([[1, 9, 3, 4, 5], [5, 4, 3, 2, 9]])
EVERY_FORM = [
    "cached",
    "cached-host+cache_layout=position-major+cache_dtype=int8+attention=einsum+mask=additive",
    "cached-host+cache_layout=stacked+attention=repeated+mask=where",
    "cached-host+layers=scanned+key_block=5+cache_dtype=int8",
    "cached-host+attention=dot_product_attention+mask=table+cache_dtype=bf16",
    "cached-host+prefill_chunk=3+fusion=barriers",
    "cached-host+bucket=4+window=4+donate=false",
]
IN_BF16 = ["cached-host+softmax=native+cache_layout=position-major", "cached-host+softmax=accumulated+mask=additive"]
ONE_BY_ONE = [
    "cached-host+position=static",
    *(f"cached+cache_dtype={one}" for one in ("bf16", "int8")),
    *(f"cached+attention={one}" for one in ("repeated", "einsum", "dot_product_attention")),
    *(f"cached+mask={one}" for one in ("additive", "where", "table")),
    *(f"cached+{one}" for one in ("layers=scanned", "key_block=5", "window=4", "cache_layout=stacked")),
    *(f"cached+{one}" for one in ("prefill_chunk=4+bucket=2", "fusion=barriers", "hooks=capture")),
]


@cache
def model(bad=BAD, dtype="f32"):
    """Return a model whose token ``bad`` makes NaN of whatever attends to it."""
    config = ModelConfig.from_hf(SHAPE)
    params = dict(seeded_params(config, seed=2))
    params["embed_tokens"] = {"weight": params["embed_tokens"]["weight"].at[bad].set(np.nan)}
    if dtype == "bf16":
        params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    return Model(name="spoilt", config=config, params=params, dtype=dtype)


def assert_forgotten(engine):
    """A longer request with NaN in it changes nothing for the next, in tokens, logits and steps."""
    fresh = np.asarray(engine.generate(SOUND, 3))
    logits, state = engine.prefill(SPOILT)
    assert np.isnan(logits).all()
    del state
    engine.generate(SPOILT, 9)
    np.testing.assert_array_equal(engine.generate(SOUND, 3), fresh)
    engine.generate(SPOILT, 9)
    logits, state = engine.prefill(SOUND)
    assert np.isfinite(logits).all()
    np.testing.assert_array_equal(np.argmax(logits, -1), fresh[:, 0])
    if engine.settings.cache == "static":
        np.testing.assert_array_equal(np.argmax(engine.decode_step(fresh[:, 0], state)[0], -1), fresh[:, 1])


@pytest.mark.parametrize("name", EVERY_FORM)
def test_a_request_that_was_not_finite_spoils_no_later_one(name):
    """In every layout, dtype and form of a cache that is read whole, be it masked before the softmax or after it."""
    assert_forgotten(build_engine(model(), name, capacity=CAPACITY))


@pytest.mark.parametrize("name", IN_BF16)
def test_in_bfloat16_neither(name):
    """Where a softmax may be of the model's dtype, and the cache may hold bits."""
    assert_forgotten(build_engine(model(dtype="bf16"), name, capacity=CAPACITY))


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_one_setting_after_the_other_neither(name):
    """Not compiled, one program a position, and each form alone."""
    assert_forgotten(build_engine(model(), name, capacity=CAPACITY))


def test_tokens_that_a_request_left_are_not_read_by_the_next():
    """Without a cache the tokens themselves are kept, and those behind the last one are masked no better."""
    engine = build_engine(model(), "padded", capacity=CAPACITY)
    fresh = np.asarray(engine.generate(SOUND, 2))
    engine.generate(np.full((2, 9), BAD), 2)
    np.testing.assert_array_equal(engine.generate(SOUND, 2), fresh)


@cache
def generator(name, bad=BAD):
    return build_generator(model(bad), name, capacity=CAPACITY)


@pytest.fixture(scope="module")
def additive():
    return build_engine(model(), "cached-host+mask=additive+cache_dtype=int8", capacity=CAPACITY)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_whatever_a_cache_was_left_with_is_gone(number, additive):
    """Also numbers that no logit tells of: an infinite key may have had the weight 0 until a mask is added to it."""
    engine = additive
    fresh = np.asarray(engine.generate(SOUND, 3))

    def overflown(*given):
        result = engine.calls.decode_step(*given)
        layers = jax.tree.map(
            lambda leaf: jnp.full_like(leaf, 127 if leaf.dtype == jnp.int8 else number), result.state.layers
        )
        return result._replace(state=result.state._replace(layers=layers))

    # The two share what is kept for the next request.
    replace(engine, calls=replace(engine.calls, decode_step=overflown)).generate(SOUND, 2)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(engine.spare[2].layers))
    np.testing.assert_array_equal(engine.generate(SOUND, 3), fresh)


@pytest.mark.parametrize("name", ["cached+bucket=8", "cached-host+cache_dtype=int8"])
def test_ragged_rows_are_spoilt_neither_by_an_earlier_request_nor_by_a_row_beside_them(name):
    """Each row gets what it gets alone from a generator that has seen nothing else; so does a stream."""
    chosen = generator(name)
    fresh = chosen.generate(RAGGED, 3).rows()
    chosen.generate([[1, BAD, 3, 4], [BAD]], 6)
    assert chosen.generate(RAGGED, 3).rows() == fresh
    assert chosen.generate([RAGGED[0], [BAD]], 6).rows()[0][:3] == fresh[0]
    streamed = np.stack([np.asarray(step.tokens) for step in chosen.stream(RAGGED, 3)], axis=1)
    assert streamed.tolist() == fresh


def test_a_row_is_not_padded_with_a_token_that_its_prompt_does_not_have():
    """Token 0 may be one that no prompt has and no training has seen; rows are padded to the longest and the bucket."""
    rows, expected = (generator("cached+bucket=8", bad).generate(RAGGED, 3).rows() for bad in (0, BAD))
    assert rows == expected


@pytest.mark.parametrize("settings", ["bucket=4", "prefill_chunk=3"])
def test_a_piece_of_a_prompt_is_not_padded_with_one_either(settings):
    """Neither what follows the prompt's tokens in their own program nor what the cache holds of it is read."""
    plain = build_engine(model(), "cached-host", capacity=CAPACITY).prefill(SOUND)[0]
    padded = build_engine(model(bad=0), f"cached-host+{settings}", capacity=CAPACITY).prefill(SOUND)[0]
    np.testing.assert_allclose(padded, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", ["cache_layout=stacked", "cache_dtype=int8"])
def test_a_cache_is_emptied_where_it_lies(settings):
    """One program fills all of its arrays with zeros and allocates none; the old ones are given up."""
    engine = build_engine(model(), f"cached-host+{settings}", capacity=CAPACITY)
    (planned,) = (one for one in engine.plan(2, 5, 3) if one.name == CLEAR)
    layers = planned.arguments[0]
    memory = planned.build().compiled.memory_analysis()
    assert (memory.alias_size_in_bytes, memory.temp_size_in_bytes) == (byte_size(layers), 0)
    _, state = engine.prefill(SOUND)
    planned.call(state.device.layers)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.device.layers))


@pytest.mark.slow
def test_a_state_that_a_step_of_one_s_own_hands_back_is_left_alone():
    """Nobody here knows what of it the next request would read: that begins anew."""

    def step(params, tokens, state, tables, **given):
        result = decode_step(params, tokens, KVCache(*state), tables, **given)
        return result._replace(state=tuple(result.state))

    usual = build_engine(model(), "cached-host+jit=false+donate=false", capacity=CAPACITY)
    engine = build_engine(model(), "cached-host+jit=false+donate=false", capacity=CAPACITY, step=step)
    for _ in range(2):
        np.testing.assert_array_equal(engine.generate(SOUND, 3), usual.generate(SOUND, 3))
