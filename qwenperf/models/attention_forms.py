"""The two products of attention, written in different ways; all take and give the same.

    score   queries [B, K, G, T, C] and keys    -> [B, K, G, T, S], not scaled yet
    mix     weights [B, K, G, T, S] and values  -> [B, K, G, T, C]

Keys and values are as ``keys_values`` says. Those of int8 enter the products as they are, and their scales, one for
each head and position, multiply the scores and the weights: they are never written out as floats of full size by us
(what a compiler makes of the cast is its own choice).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from qwenperf.models.keys_values import Stored, numbers
from qwenperf.models.scaled import Scaled

Grouped = Float[Array, "B K G T C"]
Scores = Float[Array, "B K G T S"]
Score = Callable[[Grouped, Array, jnp.dtype], Scores]
Mix = Callable[[Scores, Array], Grouped]
_Pair = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to write attention."""

    score: Score
    mix: Mix


def score(form: Form, query_BKGTC: Grouped, keys: Stored, dtype: jnp.dtype) -> Scores:
    """Return the products of queries and keys, accumulated in ``dtype``."""
    if not isinstance(keys, Scaled):
        return form.score(query_BKGTC, numbers(keys).astype(query_BKGTC.dtype), dtype)
    score_BKGTS = form.score(query_BKGTC, keys.whole.astype(query_BKGTC.dtype), dtype)
    return score_BKGTS * _by_head(keys, query_BKGTC.shape[0]).astype(dtype)


def mix(form: Form, weight_BKGTS: Scores, values: Stored) -> Grouped:
    """Return the values' means by weight, in the weights' dtype."""
    dtype = weight_BKGTS.dtype
    if not isinstance(values, Scaled):
        return form.mix(weight_BKGTS, numbers(values).astype(dtype))
    weight_BKGTS = weight_BKGTS * _by_head(values, weight_BKGTS.shape[0]).astype(dtype)
    return form.mix(weight_BKGTS, values.whole.astype(dtype))


def _by_head(stored: Scaled, batch: int) -> Float[Array, "B K 1 1 S"]:
    scale = stored.scale
    scale_BKS = scale.reshape(batch, -1, scale.shape[1]) if scale.ndim == 2 else scale.swapaxes(1, 2)
    return jnp.expand_dims(scale_BKS, (2, 3))


def _grouped_score(query_BKGTC: Grouped, keys: Array, dtype: jnp.dtype) -> Scores:
    batch, heads, group, length, size = query_BKGTC.shape
    queries = _queries(group, length)
    rows, axes = _batch_axes(keys, batch, heads)
    query = query_BKGTC.reshape(*rows, *queries, size)
    contracted = ((query.ndim - 1,), (keys.ndim - 1,))
    out = lax.dot_general(query, keys, (contracted, axes), preferred_element_type=dtype)
    return out.reshape(batch, heads, group, length, keys.shape[1])


def _grouped_mix(weight_BKGTS: Scores, values: Array) -> Grouped:
    batch, heads, group, length, keys = weight_BKGTS.shape
    queries = _queries(group, length)
    rows, axes = _batch_axes(values, batch, heads)
    weight = weight_BKGTS.reshape(*rows, *queries, keys)
    out = lax.dot_general(weight, values, (((weight.ndim - 1,), (1,)), axes))
    return out.reshape(batch, heads, group, length, values.shape[-1])


def _queries(group: int, length: int) -> tuple[int, ...]:
    """Return the axes of a group's queries: one of a decode step, two of a prompt.

    XLA for CPU makes the same program of both. For TPU v5p it turns scores, mask and means around in each layer where
    the two are one axis (see docs/aot.md).
    """
    return (group,) if length == 1 else (group, length)


def _batch_axes(stored: Array, batch: int, heads: int) -> tuple[tuple[int, ...], _Pair]:
    """Return the sizes of the axes that both operands of a product have, and where these lie in each of them."""
    return ((batch, heads), ((0, 1), (0, 2))) if stored.ndim == 4 else ((batch * heads,), ((0,), (0,)))


def _einsum_score(query_BKGTC: Grouped, keys: Array, dtype: jnp.dtype) -> Scores:
    known, axes = _split_rows(keys, query_BKGTC.shape[0])
    return jnp.einsum(f"bkgtc,{axes}->bkgts", query_BKGTC, known, preferred_element_type=dtype)


def _einsum_mix(weight_BKGTS: Scores, values: Array) -> Grouped:
    known, axes = _split_rows(values, weight_BKGTS.shape[0])
    return jnp.einsum(f"bkgts,{axes}->bkgtc", weight_BKGTS, known)


def _repeated_score(query_BKGTC: Grouped, keys: Array, dtype: jnp.dtype) -> Scores:
    batch, heads, group, length, size = query_BKGTC.shape
    known, axes = _repeat(keys, batch, group)
    query_BHTC = query_BKGTC.reshape(batch, heads * group, length, size)
    score_BHTS = jnp.einsum(f"bktc,{axes}->bkts", query_BHTC, known, preferred_element_type=dtype)
    return score_BHTS.reshape(batch, heads, group, length, -1)


def _repeated_mix(weight_BKGTS: Scores, values: Array) -> Grouped:
    batch, heads, group, length, _ = weight_BKGTS.shape
    known, axes = _repeat(values, batch, group)
    weight_BHTS = weight_BKGTS.reshape(batch, heads * group, length, -1)
    return jnp.einsum(f"bkts,{axes}->bktc", weight_BHTS, known).reshape(batch, heads, group, length, -1)


def _repeat(stored: Array, batch: int, group: int) -> tuple[Array, str]:
    known, axes = _split_rows(stored, batch)
    return jnp.repeat(known, group, axis=axes.index("k")), axes


def _split_rows(stored: Array, batch: int) -> tuple[Array, str]:
    """Return keys or values with an axis for each of batch and heads, and its axes as einsum writes them."""
    if stored.ndim == 3:
        return stored.reshape(batch, -1, *stored.shape[1:]), "bksc"
    return stored, "bskc"


FORMS = {
    "grouped": Form(score=_grouped_score, mix=_grouped_mix),
    "einsum": Form(score=_einsum_score, mix=_einsum_mix),
    "repeated": Form(score=_repeated_score, mix=_repeated_mix),
}
"""By the values of setting ``attention``; ``dot_product_attention`` is one function and has no parts."""
