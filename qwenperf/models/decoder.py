"""The forward pass that all families share, as pure functions of (params, config).

A family says which norm and which MLP its layers have (``families``); the rest is data: which weights there are,
whether positions are turned or learned, whether the head is the embedding. ``params`` is the tree of ``parameters``.
Layers that are stacked (see ``layout``) are scanned, others written out one after the other.
Knows nothing of caches and loops: a caller keeps keys and values in ``memory``, by its own ``remember``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.attention import KeysValues, causal_mask, self_attention
from qwenperf.models.config import ModelConfig
from qwenperf.models.families import Family, family_of
from qwenperf.models.layers import Weights, apart, embed, matmul_precision, product
from qwenperf.models.rotary import RotaryTables, Rotation, compute, look_up
from qwenperf.models.taps import Tap
from qwenperf.models.variant import PLAIN, Variant

Params = Mapping[str, Any]
LayerIndex = int | Int[Array, ""]
RememberLayer = Callable[[Any, LayerIndex, KeysValues], tuple[Any, KeysValues]]
"""Takes the memory, a layer's index and its new keys and values; returns the memory with them, and all that the
layer's queries may attend to. Where layers are scanned, the index is data and the memory keeps its shapes."""


def forget(memory: Any, _layer: LayerIndex, new: KeysValues) -> tuple[Any, KeysValues]:
    """Keep nothing: queries attend to the keys and values of this very call."""
    return memory, new


def collect(memory: Any, _layer: LayerIndex, new: KeysValues) -> tuple[Any, KeysValues]:
    """Append to a tuple of layers, which is what an empty one grows to; for layers that are written out."""
    return (*memory, new), new


def as_it_is(layer: Callable[..., Any]) -> Callable[..., Any]:
    """Transform nothing."""
    return layer


def forward(
    params: Params,
    config: ModelConfig,
    tokens_BT: Int[Array, "B T"],
    *,
    positions_BT: Int[Array, "B T"],
    mask_BTS: Bool[Array, "B T S"],
    tables: RotaryTables | None = None,
    remember: RememberLayer = forget,
    memory: Any = None,
    variant: Variant = PLAIN,
    around: Callable[[Callable[..., Any]], Callable[..., Any]] = as_it_is,
) -> tuple[Float[Array, "B T D"], Any]:
    """Return hidden states after the final norm, and the memory.

    Args:
      params: the weights.
      config: their shapes and constants.
      tokens_BT: token ids, within the vocabulary.
      positions_BT: each token's position in its own row; within the table where positions are learned.
      mask_BTS: which of the S keys (those that ``remember`` returns) each token may attend to.
      tables: rotary tables that reach every position; ``None`` computes sines and cosines in every layer (none
        are needed where positions are learned).
      remember: how each layer's keys and values are kept.
      memory: what they are added to.
      variant: how it is written.
      around: a transformation of each layer's function, such as ``jax.checkpoint`` where it is differentiated.
    """
    family = family_of(config)
    rotation = None if tables is None else look_up(tables, positions_BT)
    if variant.rotary == "step":
        rotation = compute(config, positions_BT)

    def run(carry: tuple[Any, Any], index: LayerIndex, layer: Weights) -> tuple[Any, Any]:
        hidden_BTD, memory = carry
        turn = compute(config, positions_BT) if rotation is None else rotation
        return _block(
            hidden_BTD,
            layer,
            config,
            family,
            rotation=turn,
            mask_BTS=mask_BTS,
            remember=partial(remember, memory, index),
            variant=variant,
            tap=partial(_tap_layer, variant.tap, index),
        )

    hidden_BTD = variant.tap("embed", _embed(params, tokens_BT, positions_BT, variant))
    with matmul_precision(variant):
        hidden_BTD, memory = _through(params["layers"], (hidden_BTD, memory), around(run), variant.tap)
    return variant.tap("norm", family.norm(hidden_BTD, params["norm"], config)), memory


def _tap_layer(tap: Tap, index: LayerIndex, point: str, value: Array) -> Array:
    return tap(f"layers.{point}", value, index)


def _through(layers: Any, carry: tuple[Any, Any], run: Callable[..., tuple[Any, Any]], tap: Tap) -> tuple[Any, Any]:
    """Return ``carry`` after all layers."""
    if not isinstance(layers, Mapping):
        for index, layer in enumerate(layers):
            carry = run(carry, index, layer)
        return carry
    # The memory is carried and not scanned over: what is scanned over comes back as a copy.
    indices = jnp.arange(jax.tree.leaves(layers)[0].shape[0], dtype=jnp.int32)
    carry, captured = lax.scan(lambda carry, given: (run(carry, *given), tap.drain()), carry, (indices, layers))
    tap.keep(captured)
    return carry


def unembed(
    params: Params, config: ModelConfig, hidden_BTD: Float[Array, "B T D"], variant: Variant = PLAIN
) -> Float[Array, "B T V"]:
    """Return logits in f32."""
    head = params["embed_tokens"] if config.tie_word_embeddings else params["lm_head"]
    with matmul_precision(variant):
        return variant.tap("logits", product(hidden_BTD, head, variant, jnp.dtype(jnp.float32)))


def logits(
    params: Params,
    config: ModelConfig,
    tokens_BT: Int[Array, "B T"],
    *,
    attention_mask_BT: Int[Array, "B T"] | Bool[Array, "B T"] | None = None,
    window: int = 0,
) -> Float[Array, "B T V"]:
    """Return f32 logits of every position, computed without a cache.

    Args:
      params: the weights.
      config: their shapes and constants.
      tokens_BT: token ids, within the vocabulary.
      attention_mask_BT: nonzero for tokens, zero for padding at either end of a row; ``None``: no padding.
        Logits at padding are finite and mean nothing.
      window: of how many keys a token sees the last ones; 0 for all.

    Raises:
      TokenError: rows without padding that are longer than the model's learned positions.
    """
    if attention_mask_BT is None:
        config.check_positions(tokens_BT.shape[1])
    positions_BT, mask_BTT = whole_sequence(tokens_BT, attention_mask_BT, window=window)
    hidden_BTD, _ = forward(params, config, tokens_BT, positions_BT=positions_BT, mask_BTS=mask_BTT)
    return unembed(params, config, hidden_BTD)


def whole_sequence(
    tokens_BT: Int[Array, "B T"],
    attention_mask_BT: Int[Array, "B T"] | Bool[Array, "B T"] | None = None,
    *,
    window: int = 0,
) -> tuple[Int[Array, "B T"], Bool[Array, "B T T"]]:
    """Return positions, counted in each row from its first token that is not padding, and the causal mask."""
    batch, length = tokens_BT.shape
    order_BT = jnp.broadcast_to(jnp.expand_dims(jnp.arange(length, dtype=jnp.int32), 0), (batch, length))
    causal_BTT = causal_mask(order_BT, length, window)
    if attention_mask_BT is None:
        return order_BT, causal_BTT
    valid_BT = attention_mask_BT.astype(jnp.bool_)
    positions_BT = jnp.maximum(jnp.cumsum(valid_BT, axis=-1, dtype=jnp.int32) - 1, 0)
    return positions_BT, causal_BTT & jnp.expand_dims(valid_BT, 1)


def _embed(
    params: Params, tokens_BT: Int[Array, "B T"], positions_BT: Int[Array, "B T"], variant: Variant
) -> Float[Array, "B T D"]:
    # Rows of a quantised table come in f32.
    rows_BTD = embed(tokens_BT, params["embed_tokens"]).astype(params["norm"]["weight"].dtype)
    hidden_BTD = apart(rows_BTD, variant)
    if "embed_positions" not in params:
        return hidden_BTD
    return apart(hidden_BTD + apart(embed(positions_BT, params["embed_positions"]), variant), variant)


def _block(
    hidden_BTD: Float[Array, "B T D"],
    layer: Weights,
    config: ModelConfig,
    family: Family,
    *,
    rotation: Rotation | None,
    variant: Variant,
    tap: Callable[[str, Array], Array],
    **attention: Any,
) -> tuple[Float[Array, "B T D"], Any]:
    hidden_BTD = tap("input", hidden_BTD)
    normal_BTD = family.norm(hidden_BTD, layer["input_layernorm"], config)
    attended_BTD, memory = self_attention(
        normal_BTD, layer["self_attn"], config, rotation=rotation, variant=variant, **attention
    )
    hidden_BTD = apart(hidden_BTD + apart(tap("attention", attended_BTD), variant), variant)
    normal_BTD = family.norm(hidden_BTD, layer["post_attention_layernorm"], config)
    out_BTD = apart(tap("mlp", family.mlp(normal_BTD, layer["mlp"], variant)), variant)
    return tap("output", apart(hidden_BTD + out_BTD, variant)), memory
