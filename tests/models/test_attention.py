import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.attention import KeysValues, attend, causal_mask

BATCH, QUERIES, KEYS, SIZE = 2, 3, 5, 8


def _arrays(heads, kv_heads, keys=KEYS):
    rng = np.random.default_rng(heads * 10 + kv_heads)
    query = rng.normal(size=(BATCH, QUERIES, heads, SIZE)).astype(np.float32)
    key, value = rng.normal(size=(2, BATCH, kv_heads, keys, SIZE)).astype(np.float32)
    return query, key, value


def _known(key_BKSC, value_BKSC):
    merged = [jnp.asarray(x.reshape(-1, *x.shape[2:])) for x in (key_BKSC, value_BKSC)]
    return KeysValues(keys=merged[0], values=merged[1])


def _with_repeated_heads(query, key, value, mask):
    """The definition in f64, keys and values repeated for every query head."""
    group = query.shape[2] // key.shape[1]
    key, value = (np.repeat(x.astype(np.float64), group, axis=1) for x in (key, value))
    score = np.einsum("bthc,bhsc->bhts", query, key) / np.sqrt(SIZE)
    score = np.where(mask[:, None], score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bhts,bhsc->bthc", weight / weight.sum(-1, keepdims=True), value)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 3), (4, 1)])
def test_grouped_heads_equal_repeated_keys_and_values(heads, kv_heads):
    """Sharing a key head is the same as having a copy of it for each query head."""
    query, key, value = _arrays(heads, kv_heads)
    mask = np.tril(np.ones((QUERIES, KEYS), bool), KEYS - QUERIES)[None].repeat(BATCH, 0)
    out = attend(jnp.asarray(query), _known(key, value), jnp.asarray(mask))
    np.testing.assert_allclose(out, _with_repeated_heads(query, key, value, mask), rtol=0, atol=1e-6)


def test_each_row_of_the_batch_has_its_own_mask():
    """Row 0 sees one key, row 1 all but one."""
    query, key, value = _arrays(4, 2)
    mask = np.ones((BATCH, QUERIES, KEYS), bool)
    mask[0, :, 1:] = False
    mask[1, :, 2] = False
    out = attend(jnp.asarray(query), _known(key, value), jnp.asarray(mask))
    np.testing.assert_allclose(out, _with_repeated_heads(query, key, value, mask), rtol=0, atol=1e-6)


def test_what_lies_behind_the_mask_does_not_matter():
    """Old content of a cache changes no bit of the output."""
    query, key, value = _arrays(4, 2)
    mask = jnp.asarray(np.arange(KEYS) < 3)[None, None].repeat(BATCH, 0).repeat(QUERIES, 1)
    dirty = [x.copy() for x in (key, value)]
    for x in dirty:
        x[:, :, 3:] = 1e6
    clean_out = attend(jnp.asarray(query), _known(key, value), mask)
    np.testing.assert_array_equal(clean_out, attend(jnp.asarray(query), _known(*dirty), mask))


def test_a_query_that_may_see_nothing_gets_finite_numbers():
    """Padding is meaningless, but must not become NaN and spread."""
    query, key, value = _arrays(4, 2)
    out = attend(jnp.asarray(query), _known(key, value), jnp.zeros((BATCH, QUERIES, KEYS), bool))
    assert np.isfinite(out).all()


def test_the_causal_mask_lets_a_query_see_itself_and_what_came_before():
    """Queries at positions 1 and 3 of 4 keys."""
    mask = causal_mask(jnp.asarray([[1, 3]], jnp.int32), 4)
    np.testing.assert_array_equal(mask, [[[True, True, False, False], [True, True, True, True]]])
