"""From queries, keys and values to attention's output: scores, mask, softmax, means; at once or block by block.

Knows nothing of weights, positions and caches: ``mask_BTS`` says which keys a query sees, and the mask is broadcast
over heads where it is used, never written out for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.attention_forms import FORMS, Grouped, Scores, mix, score
from qwenperf.models.keys_values import KeysValues, slice_of
from qwenperf.models.layers import apart
from qwenperf.models.variant import Variant


def attend_at_once(
    query_BKGTC: Grouped, known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant
) -> Grouped:
    """Return softmax(q k / sqrt(C)) v over all keys."""
    form = FORMS[variant.attention]
    score_BKGTS = _masked_scores(query_BKGTC, known, mask_BTS, variant)
    weight_BKGTS = apart(jax.nn.softmax(score_BKGTS, axis=-1), variant).astype(query_BKGTC.dtype)
    return mix(form, weight_BKGTS, known.values)


_TINY = float(np.finfo(np.float32).tiny)


class _Running(NamedTuple):
    """The softmax of the keys so far: the largest score, the sum of exponentials, the values' sum by them."""

    most: Float[Array, "B K G T 1"]
    total: Float[Array, "B K G T 1"]
    values: Float[Array, "B K G T C"]


def attend_by_blocks(
    query_BKGTC: Grouped, known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant
) -> Grouped:
    """Return the same, reading blocks of ``variant.key_block`` keys, from the first to the last that any query sees.

    The blocks' softmaxes are joined as they come (https://arxiv.org/abs/1805.02867), in f32.
    """
    keys = mask_BTS.shape[-1]
    size = min(variant.key_block, keys)
    first, last = _seen(mask_BTS)

    def add(block: Int[Array, ""], so_far: _Running) -> _Running:
        # The last block may not fit: it starts earlier then, and what the block before it held is masked.
        start = jnp.minimum(block * size, keys - size)
        order_S = start + jnp.arange(size, dtype=jnp.int32)
        inside_BTS = lax.dynamic_slice_in_dim(mask_BTS, start, size, axis=2)
        inside_BTS = inside_BTS & jnp.expand_dims(order_S >= block * size, (0, 1))
        return _join(so_far, query_BKGTC, slice_of(known, start, size), inside_BTS, variant)

    shape = query_BKGTC.shape
    empty = _Running(
        most=jnp.full((*shape[:-1], 1), _lowest(jnp.dtype(jnp.float32)), jnp.float32),
        total=jnp.zeros((*shape[:-1], 1), jnp.float32),
        values=jnp.zeros(shape, jnp.float32),
    )
    done = lax.fori_loop(first // size, (last + size - 1) // size, add, empty)
    # A query that sees nothing (padding) gets zeros: meaningless, but finite.
    return jnp.divide(done.values, jnp.maximum(done.total, _TINY)).astype(query_BKGTC.dtype)


def _join(
    so_far: _Running, query_BKGTC: Grouped, known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant
) -> _Running:
    score_BKGTS = _masked_scores(query_BKGTC, known, mask_BTS, variant)
    most = jnp.maximum(so_far.most, jnp.max(score_BKGTS, axis=-1, keepdims=True))
    # Where a block has no key for a query, all its scores are the lowest there is, and equal to the largest.
    weight_BKGTS = jnp.where(jnp.expand_dims(mask_BTS, (1, 2)), jnp.exp(score_BKGTS - most), 0)
    values = mix(FORMS[variant.attention], weight_BKGTS.astype(query_BKGTC.dtype), known.values)
    shrunk = jnp.exp(so_far.most - most)
    return _Running(
        most=most,
        total=so_far.total * shrunk + jnp.sum(weight_BKGTS, axis=-1, keepdims=True),
        values=so_far.values * shrunk + values.astype(jnp.float32),
    )


def _seen(mask_BTS: Bool[Array, "B T S"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Return the first key that any query sees, and one more than the last; nothing seen gives (0, 0)."""
    seen_S = jnp.any(mask_BTS, axis=(0, 1))
    order_S = jnp.arange(seen_S.shape[0], dtype=jnp.int32)
    last = jnp.max(jnp.where(seen_S, order_S + 1, 0))
    return jnp.min(jnp.where(seen_S, order_S, last)), last


def _masked_scores(query_BKGTC: Grouped, known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant) -> Scores:
    dtype = query_BKGTC.dtype if variant.softmax == "native" else jnp.dtype(jnp.float32)
    score_BKGTS = score(FORMS[variant.attention], query_BKGTC, known.keys, dtype) * query_BKGTC.shape[-1] ** -0.5
    if variant.softmax == "accumulated":
        # Before the mask: in bf16 the lowest f32 is -inf, and padding, which sees nothing, would become NaN.
        score_BKGTS = score_BKGTS.astype(query_BKGTC.dtype)
    return apart(masked(apart(score_BKGTS, variant), mask_BTS, variant.mask), variant)


def masked(score_BKGTS: Scores, mask_BTS: Bool[Array, "B T S"], how: str) -> Scores:
    """Return scores that are lowest where the mask is false; finite, unlike -inf: no row may become NaN."""
    lowest = _lowest(score_BKGTS.dtype)
    if how == "additive":
        return score_BKGTS + jnp.expand_dims(bias(mask_BTS, score_BKGTS.dtype), (1, 2))
    mask_B11TS = jnp.expand_dims(mask_BTS, (1, 2))
    if how == "where":
        return jnp.where(mask_B11TS, score_BKGTS, lowest)
    return lax.select(jnp.broadcast_to(mask_B11TS, score_BKGTS.shape), score_BKGTS, jnp.full_like(score_BKGTS, lowest))


def bias(mask_BTS: Bool[Array, "B T S"], dtype: jnp.dtype) -> Float[Array, "B T S"]:
    """Return what a mask is as something to add: 0 or the lowest number."""
    return jnp.where(mask_BTS, jnp.zeros((), dtype), jnp.asarray(_lowest(dtype), dtype))


def _lowest(dtype: jnp.dtype) -> float:
    return float(jnp.finfo(dtype).min)  # type: ignore[no-untyped-call]
