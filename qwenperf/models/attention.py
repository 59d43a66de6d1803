"""Grouped-query attention: H query heads share K key/value heads, G = H / K to each.

Keys and values are never repeated in memory: a group's queries are rows of one product.

    queries [B, T, K, G, C] -> [N, G T, C]     keys, values [N, S, C]     N = B K, one for each row and head

Why N is one axis: with axes B and K apart, XLA drops an axis of size 1 (batch 1) by a bitcast of the updated
cache, fuses update and bitcast, and so on CPU copies the whole cache in every step. (Where N itself is 1, it
still does.) The two products below contract axes where they lie, so that neither side is transposed.

Axis names: B batch, T queries, S keys, H query heads, K key/value heads, G group, C head_dim, D hidden.
Knows nothing of how keys and values are kept between calls: ``remember`` is given the new ones and
returns what it keeps and those to attend to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.config import ModelConfig
from qwenperf.models.layers import Weights, linear, rms_norm
from qwenperf.models.rotary import Rotation, rotate
from qwenperf.models.variant import PLAIN, Variant

# Finite, unlike -inf: a row that is masked throughout must not become NaN.
_LOWEST = float(np.finfo(np.float32).min)


class KeysValues(NamedTuple):
    """Rotated keys and values of one layer: what a cache holds. Stacked, those of all L layers."""

    keys: Float[Array, "*L N S C"]
    values: Float[Array, "*L N S C"]


Remember = Callable[[KeysValues], tuple[Any, KeysValues]]
"""Takes one layer's new keys and values, returns what is kept of them and all that its queries may attend to."""


def self_attention(
    hidden_BTD: Float[Array, "B T D"],
    weights: Weights,
    config: ModelConfig,
    *,
    rotation: Rotation | None,
    mask_BTS: Bool[Array, "B T S"],
    remember: Remember,
    variant: Variant = PLAIN,
) -> tuple[Float[Array, "B T D"], Any]:
    """Return the layer's attention output and what ``remember`` keeps.

    What the weights hold decides: one fused ``qkv_proj`` or three projections, ``q_norm`` and ``k_norm`` or none.
    """
    query_BTHC, key_BTKC, value_BTKC = (
        _split_heads(x, config.head_dim) for x in _project(hidden_BTD, weights, config, variant)
    )
    if "q_norm" in weights:
        query_BTHC = rms_norm(query_BTHC, weights["q_norm"], config.rms_norm_eps)
        key_BTKC = rms_norm(key_BTKC, weights["k_norm"], config.rms_norm_eps)
    new = KeysValues(keys=_head_major(rotate(key_BTKC, rotation)), values=_head_major(value_BTKC))
    memory, known = remember(new)
    out_BTHC = attend(rotate(query_BTHC, rotation), known, mask_BTS, variant)
    return linear(out_BTHC.reshape(*out_BTHC.shape[:2], -1), weights["o_proj"], variant), memory


def attend(
    query_BTHC: Float[Array, "B T H C"], known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant = PLAIN
) -> Float[Array, "B T H C"]:
    """Return softmax(q k / sqrt(C)) v, the softmax in f32.

    A query whose mask is all false (padding) gets the mean of the values: meaningless, but finite.
    """
    del variant
    batch, length, heads, size = query_BTHC.shape
    rows, keys, _ = known.keys.shape
    grouped = (batch, rows // batch, heads * batch // rows, length)
    query_BKGTC = query_BTHC.reshape(batch, length, *grouped[1:3], size).transpose(0, 2, 3, 1, 4)
    score_NMS = lax.dot_general(
        query_BKGTC.reshape(rows, -1, size),
        known.keys,
        (((2,), (2,)), ((0,), (0,))),
        preferred_element_type=jnp.float32,
    )
    mask_B11TS = jnp.expand_dims(mask_BTS, (1, 2))
    score_BKGTS = jnp.where(mask_B11TS, score_NMS.reshape(*grouped, keys) * size**-0.5, _LOWEST)
    weight_NMS = jax.nn.softmax(score_BKGTS, axis=-1).astype(query_BTHC.dtype).reshape(rows, -1, keys)
    out_NMC = lax.dot_general(weight_NMS, known.values, (((2,), (1,)), ((0,), (0,))))
    return out_NMC.reshape(*grouped, size).transpose(0, 3, 1, 2, 4).reshape(query_BTHC.shape)


def causal_mask(positions_BT: Int[Array, "B T"], keys: int) -> Bool[Array, "B T S"]:
    """Return True where key ``s`` is not after the query at ``positions_BT``; ``keys`` are numbered from 0."""
    key_11S = jnp.expand_dims(jnp.arange(keys, dtype=positions_BT.dtype), (0, 1))
    return key_11S <= jnp.expand_dims(positions_BT, -1)


def _project(hidden_BTD: Float[Array, "B T D"], weights: Weights, config: ModelConfig, variant: Variant) -> list[Array]:
    if "qkv_proj" not in weights:
        return [linear(hidden_BTD, weights[name], variant) for name in ("q_proj", "k_proj", "v_proj")]
    queries, keys = (heads * config.head_dim for heads in (config.num_attention_heads, config.num_key_value_heads))
    return jnp.split(linear(hidden_BTD, weights["qkv_proj"], variant), (queries, queries + keys), axis=-1)


def _split_heads(x_BTI: Float[Array, "B T I"], size: int) -> Float[Array, "B T heads C"]:
    return x_BTI.reshape(*x_BTI.shape[:2], -1, size)


def _head_major(x_BTKC: Float[Array, "B T K C"]) -> Float[Array, "N T C"]:
    batch, length, heads, size = x_BTKC.shape
    return x_BTKC.swapaxes(1, 2).reshape(batch * heads, length, size)
