"""Grouped-query attention: H query heads share K key/value heads, G = H / K to each.

Keys and values are never repeated in memory: the group is an axis of the products.
Axis names: B batch, T queries, S keys, H query heads, K key/value heads, G group, C head_dim, D hidden.
Knows nothing of how keys and values are kept between calls: ``remember`` is given the new ones and
returns those to attend to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.config import ModelConfig
from qwenperf.models.layers import Weights, linear
from qwenperf.models.rotary import Rotation, rotate


class KeysValues(NamedTuple):
    """Rotated keys and values of one layer, head-major: what a cache holds."""

    keys: Float[Array, "B K S C"]
    values: Float[Array, "B K S C"]


Remember = Callable[[KeysValues], KeysValues]
"""Takes one layer's new keys and values, returns all that its queries may attend to."""


def self_attention(
    hidden_BTD: Float[Array, "B T D"],
    weights: Weights,
    config: ModelConfig,
    *,
    rotation: Rotation,
    mask_BTS: Bool[Array, "B T S"],
    remember: Remember,
) -> tuple[Float[Array, "B T D"], KeysValues]:
    """Return the layer's attention output and what ``remember`` returned."""
    query_BTHC = rotate(_heads(linear(hidden_BTD, weights["q_proj"]), config.head_dim), rotation)
    key_BTKC = rotate(_heads(linear(hidden_BTD, weights["k_proj"]), config.head_dim), rotation)
    value_BTKC = _heads(linear(hidden_BTD, weights["v_proj"]), config.head_dim)
    known = remember(KeysValues(keys=key_BTKC.swapaxes(1, 2), values=value_BTKC.swapaxes(1, 2)))
    out_BTHC = attend(query_BTHC, known, mask_BTS)
    return linear(out_BTHC.reshape(*out_BTHC.shape[:2], -1), weights["o_proj"]), known


def attend(
    query_BTHC: Float[Array, "B T H C"], known: KeysValues, mask_BTS: Bool[Array, "B T S"]
) -> Float[Array, "B T H C"]:
    """Return softmax(q k / sqrt(C)) v, the softmax in f32.

    A query whose mask is all false (padding) gets the mean of the values: meaningless, but finite.
    """
    batch, length, heads, size = query_BTHC.shape
    kv_heads = known.keys.shape[1]
    query_BTKGC = query_BTHC.reshape(batch, length, kv_heads, heads // kv_heads, size)
    score_BKGTS = jnp.einsum("BTKGC,BKSC->BKGTS", query_BTKGC, known.keys, preferred_element_type=jnp.float32) * (
        size**-0.5
    )
    lowest = jnp.finfo(jnp.float32).min
    weight_BKGTS = jax.nn.softmax(jnp.where(jnp.expand_dims(mask_BTS, (1, 2)), score_BKGTS, lowest), axis=-1)
    out_BTKGC = jnp.einsum("BKGTS,BKSC->BTKGC", weight_BKGTS.astype(query_BTHC.dtype), known.values)
    return out_BTKGC.reshape(query_BTHC.shape)


def causal_mask(positions_BT: Int[Array, "B T"], keys: int) -> Bool[Array, "B T S"]:
    """Return True where key ``s`` is not after the query at ``positions_BT``; ``keys`` are numbered from 0."""
    key_11S = jnp.expand_dims(jnp.arange(keys, dtype=positions_BT.dtype), (0, 1))
    return key_11S <= jnp.expand_dims(positions_BT, -1)


def _heads(x_BTN: Float[Array, "B T N"], size: int) -> Float[Array, "B T heads C"]:
    return x_BTN.reshape(*x_BTN.shape[:2], -1, size)
