"""Attention of a layer: H query heads share K key/value heads, G = H / K to each.

Keys and values are never repeated in memory (unless ``variant`` asks for that mistake): a group's queries are rows
of one product.

    queries [B, T, K, G, C] -> [N, G, T, C]    keys, values [N, S, C]     N = B K, one for each row and head

Why N is one axis: with axes B and K apart, XLA drops an axis of size 1 (batch 1) by a bitcast of the updated
cache, fuses update and bitcast, and so on CPU copies the whole cache in every step. (Where N itself is 1, it
still does.) The products (``attention_forms``) contract axes where they lie, so that neither side is transposed.

Axis names: B batch, T queries, S keys, H query heads, K key/value heads, G group, C head_dim, D hidden.
Knows nothing of how keys and values are kept between calls: ``remember`` is given the new ones and
returns what it keeps and those to attend to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.config import ModelConfig
from qwenperf.models.keys_values import KeysValues, heads_of, in_order, read
from qwenperf.models.layers import Weights, linear, rms_norm
from qwenperf.models.rotary import Rotation, rotate
from qwenperf.models.softmax import attend_at_once, attend_by_blocks, bias
from qwenperf.models.variant import PLAIN, Variant

__all__ = ["KeysValues", "Remember", "attend", "causal_mask", "self_attention"]

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
    layout = variant.cache_layout
    new = KeysValues(keys=in_order(rotate(key_BTKC, rotation), layout), values=in_order(value_BTKC, layout))
    memory, known = remember(new)
    out_BTHC = attend(rotate(query_BTHC, rotation), known, mask_BTS, variant)
    return linear(out_BTHC.reshape(*out_BTHC.shape[:2], -1), weights["o_proj"], variant), memory


def attend(
    query_BTHC: Float[Array, "B T H C"], known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant = PLAIN
) -> Float[Array, "B T H C"]:
    """Return softmax(q k / sqrt(C)) v, written as ``variant`` says.

    A query whose mask is all false (padding) gets something meaningless, but finite.
    """
    if variant.attention == "dot_product_attention":
        return _by_library(query_BTHC, known, mask_BTS, variant)
    batch, length, heads, size = query_BTHC.shape
    kv_heads = heads_of(known.keys, batch)
    query_BTKGC = query_BTHC.reshape(batch, length, kv_heads, heads // kv_heads, size)
    # A prompt that attends to itself has no empty blocks to leave out.
    blocks = variant.key_block and length < mask_BTS.shape[-1]
    run = attend_by_blocks if blocks else attend_at_once
    out_BKGTC = run(query_BTKGC.transpose(0, 2, 3, 1, 4), known, mask_BTS, variant)
    return out_BKGTC.transpose(0, 3, 1, 2, 4).reshape(query_BTHC.shape)


def _by_library(
    query_BTHC: Float[Array, "B T H C"], known: KeysValues, mask_BTS: Bool[Array, "B T S"], variant: Variant
) -> Float[Array, "B T H C"]:
    """Leave it to JAX, which takes keys and values [B, S, K, C] in the queries' dtype."""
    batch, dtype = query_BTHC.shape[0], query_BTHC.dtype
    keys, values = (_position_major(read(stored, dtype), batch) for stored in known)
    mask_B1TS = jnp.expand_dims(mask_BTS, 1)
    if variant.mask == "additive":
        return jax.nn.dot_product_attention(query_BTHC, keys, values, bias=bias(mask_B1TS, jnp.dtype(jnp.float32)))
    return jax.nn.dot_product_attention(query_BTHC, keys, values, mask=mask_B1TS)


def _position_major(stored: Array, batch: int) -> Float[Array, "B S K C"]:
    if stored.ndim == 4:
        return stored
    return stored.reshape(batch, -1, *stored.shape[1:]).swapaxes(1, 2)


def causal_mask(positions_BT: Int[Array, "B T"], keys: int, window: int = 0) -> Bool[Array, "B T S"]:
    """Return True where key ``s`` is not after the query at ``positions_BT``; ``keys`` are numbered from 0.

    With a ``window``, of those only the last so many: the query's own key and what came right before.
    """
    key_11S = jnp.expand_dims(jnp.arange(keys, dtype=positions_BT.dtype), (0, 1))
    position_BT1 = jnp.expand_dims(positions_BT, -1)
    mask_BTS = key_11S <= position_BT1
    return mask_BTS & (key_11S > position_BT1 - window) if window else mask_BTS


def _project(hidden_BTD: Float[Array, "B T D"], weights: Weights, config: ModelConfig, variant: Variant) -> list[Array]:
    if "qkv_proj" not in weights:
        return [linear(hidden_BTD, weights[name], variant) for name in ("q_proj", "k_proj", "v_proj")]
    queries, keys = (heads * config.head_dim for heads in (config.num_attention_heads, config.num_key_value_heads))
    return jnp.split(linear(hidden_BTD, weights["qkv_proj"], variant), (queries, queries + keys), axis=-1)


def _split_heads(x_BTI: Float[Array, "B T I"], size: int) -> Float[Array, "B T heads C"]:
    return x_BTI.reshape(*x_BTI.shape[:2], -1, size)
