"""Each way to write attention, against its definition in f64, for every order and dtype of keys and values."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.attention import attend
from qwenperf.models.keys_values import KeysValues, read
from qwenperf.models.masks import make_mask_table
from qwenperf.models.scaled import quantize_rows
from qwenperf.models.variant import Variant

BATCH, QUERIES, KEYS, SIZE, HEADS = 2, 3, 7, 8, 4
FORMS = ("grouped", "einsum", "repeated", "dot_product_attention")


def arrays(kv_heads):
    rng = np.random.default_rng(kv_heads)
    query = rng.normal(size=(BATCH, QUERIES, HEADS, SIZE)).astype(np.float32)
    key, value = rng.normal(size=(2, BATCH, KEYS, kv_heads, SIZE)).astype(np.float32)
    return query, key, value


def stored(array_BSKC, order, dtype):
    array = jnp.asarray(array_BSKC)
    if order == "head-major":
        array = array.swapaxes(1, 2).reshape(-1, KEYS, SIZE)
    return quantize_rows(array) if dtype == "int8" else array


def definition(query, key, value, mask):
    """In f64, keys and values repeated for every query head; a query that sees nothing gives NaN."""
    key, value = (np.repeat(x.astype(np.float64), HEADS // x.shape[2], axis=2) for x in (key, value))
    score = np.where(mask[:, None], np.einsum("bthc,bshc->bhts", query, key) / np.sqrt(SIZE), -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bhts,bshc->bthc", weight / weight.sum(-1, keepdims=True), value)


def holes():
    """A mask of its own for each row: keys 1 to 4 and 3 to 6, one of them hidden."""
    mask = np.zeros((BATCH, QUERIES, KEYS), bool)
    mask[0, :, 1:5] = mask[1, :, 3:7] = True
    mask[1, 1, 4] = False
    return mask


def run(known, mask, query, /, **settings):
    attention = jax.jit(partial(attend, variant=Variant(**settings)))
    return np.asarray(attention(jnp.asarray(query), known, jnp.asarray(mask)))


@pytest.mark.parametrize("order", ["head-major", "position-major"])
@pytest.mark.parametrize(("kv_heads", "dtype"), [(HEADS, "f32"), (2, "f32"), (2, "int8")])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_attention(form, kv_heads, order, dtype):
    """Of int8 keys and values, attention over the numbers that they stand for."""
    query, key, value = arrays(kv_heads)
    known = KeysValues(*(stored(x, order, dtype) for x in (key, value)))
    if dtype == "int8":
        key, value = (np.asarray(read(quantize_rows(jnp.asarray(x)), jnp.float32)) for x in (key, value))
    out = run(known, holes(), query, attention=form)
    np.testing.assert_allclose(out, definition(query, key, value, holes()), rtol=0, atol=2e-6)


@pytest.mark.parametrize("block", [1, 3, 7, 9])
def test_blocks_of_keys_are_attention(block):
    """Blocks that divide the keys, do not, are all of them, and are more."""
    query, key, value = arrays(2)
    known = KeysValues(*(stored(x, "head-major", "f32") for x in (key, value)))
    out = run(known, holes(), query, key_block=block)
    np.testing.assert_allclose(out, definition(query, key, value, holes()), rtol=0, atol=2e-6)


def test_blocks_that_nobody_sees_are_not_read():
    """NaN in keys and values outside the blocks of keys 3 to 5 is never met."""
    query, key, value = arrays(2)
    mask = np.zeros((BATCH, QUERIES, KEYS), bool)
    mask[:, :, 3:6] = True
    expected = definition(query, key, value, mask)
    for x in (key, value):
        x[:, :3] = x[:, 6:] = np.nan
    known = KeysValues(*(stored(x, "head-major", "f32") for x in (key, value)))
    np.testing.assert_allclose(run(known, mask, query, key_block=3), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("settings", [{"key_block": 3}, {"mask": "additive"}, {"mask": "where"}, {"mask": "computed"}])
def test_a_query_that_may_see_nothing_gets_finite_numbers(settings):
    """Padding is meaningless, but must not become NaN and spread; queries beside it are as they would be."""
    query, key, value = arrays(2)
    mask = holes()
    mask[0, 0] = False
    known = KeysValues(*(stored(x, "head-major", "f32") for x in (key, value)))
    out = run(known, mask, query, **settings)
    assert np.isfinite(out).all()
    mask[0, 0] = True
    np.testing.assert_allclose(out[:, 1:], definition(query, key, value, mask)[:, 1:], rtol=0, atol=2e-6)


@pytest.mark.parametrize("mask", ["additive", "where", "computed"])
@pytest.mark.parametrize("softmax", ["f32", "accumulated", "native"])
def test_nor_does_it_become_nan_in_bf16(softmax, mask):
    """The lowest number of f32 is none of bf16, wherever scores are rounded to it."""
    query, key, value = (jnp.asarray(x, jnp.bfloat16) for x in arrays(2))
    seen = holes()
    seen[0, 0] = False
    known = KeysValues(*(stored(x, "head-major", "bf16") for x in (key, value)))
    out = run(known, seen, query, softmax=softmax, mask=mask).astype(np.float32)
    assert np.isfinite(out).all()
    seen[0, 0] = True
    expected = definition(*(np.asarray(x, np.float32) for x in (query, key, value)), seen)
    np.testing.assert_allclose(out[:, 1:], expected[:, 1:], rtol=0, atol=0.1)


def test_the_table_of_masks_has_a_row_for_each_position():
    """All before and itself, or the last of them."""
    np.testing.assert_array_equal(make_mask_table(5), np.tril(np.ones((5, 5), bool)))
    np.testing.assert_array_equal(make_mask_table(5, 2), np.eye(5, dtype=bool) | np.eye(5, k=-1, dtype=bool))
