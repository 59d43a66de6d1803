"""Prefill and decode step with a KV cache: pure functions that engines compile.

All take ``(params, tokens, state, tables)``, and what is ``Bound`` before they are traced. ``run_onto`` is what they
share: one forward pass whose queries see what the cache holds and what it is given. Those that take a ``count`` too
may be given padding behind the first ``count`` tokens: none of these sees it, and the cache ends before it.
"""

from __future__ import annotations

from typing import Any, Unpack

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from qwenperf.decode.cache import Write, capacity_of, write_by_concatenation, write_in_place, write_layer
from qwenperf.decode.state import Bound, KVCache, Layers, StepResult, StepTables, Tables, choose, rotary_of
from qwenperf.models.attention import KeysValues, causal_mask
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import LayerIndex, Params, collect, forward, unembed, whole_sequence
from qwenperf.models.masks import first_masks, look_up_mask
from qwenperf.models.variant import PLAIN, Variant

Count = Int[Array, ""] | None
"""How many of a call's tokens are real, from the first on; all of them where it is ``None``."""


def prefill(
    params: Params, tokens: Int[Array, "B T"], state: KVCache, tables: StepTables, count: Count = None, *,
    attention_mask_BT: Bool[Array, "B T"] | None = None, **bound: Unpack[Bound],
) -> StepResult:  # fmt: skip
    """Read a prompt into a static cache from its start; what the cache held before is forgotten.

    The prompt attends to itself only, not to the capacity: T * T scores instead of T * S. ``attention_mask_BT`` is
    false at padding before a row's tokens: nothing sees it, and positions are counted behind it.
    """

    def remember(layers: Layers, layer: LayerIndex, new: KeysValues) -> tuple[Layers, KeysValues]:
        return write_layer(layers, layer, new, 0, write_in_place)[0], new

    return _read(params, tokens, tables, count, attention_mask_BT, remember=remember, memory=state.layers, **bound)


def prefill_growing(
    params: Params, tokens: Int[Array, "B T"], state: None, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Read a prompt; return its keys and values as a cache that is just as long."""
    del state
    return _read(params, tokens, tables, remember=collect, memory=(), **bound)


def _read(
    params: Params,
    tokens: Int[Array, "B T"],
    tables: StepTables,
    count: Count = None,
    attention_mask_BT: Bool[Array, "B T"] | None = None,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
    **kept: Any,
) -> StepResult:
    positions_BT, mask_BTT = whole_sequence(tokens, attention_mask_BT, window=variant.window)
    if variant.mask == "table" and isinstance(tables, Tables):
        mask_BTT = first_masks(tables.mask, *tokens.shape)
        mask_BTT = mask_BTT if attention_mask_BT is None else mask_BTT & jnp.expand_dims(attention_mask_BT, 1)
    hidden_BTD, layers = forward(
        params, config, tokens, positions_BT=positions_BT, mask_BTS=mask_BTT, tables=rotary_of(tables),
        variant=variant, **kept,
    )  # fmt: skip
    cache = KVCache(layers=layers, length=_real(tokens, count))
    return choose(unembed(params, config, _last(hidden_BTD, count), variant), cache)


def _real(tokens_BT: Int[Array, "B T"], count: Count) -> Int[Array, ""]:
    return jnp.int32(tokens_BT.shape[1]) if count is None else count


def _last(hidden_BTD: Float[Array, "B T D"], count: Count) -> Float[Array, "B 1 D"]:
    """Return the hidden state of the last real token."""
    if count is None:
        return hidden_BTD[:, -1:]
    return lax.dynamic_slice_in_dim(hidden_BTD, count - jnp.int32(1), 1, axis=1)


def extend(
    params: Params,
    tokens: Int[Array, "B T"],
    state: KVCache,
    tables: StepTables,
    count: Count = None,
    **bound: Unpack[Bound],
) -> StepResult:
    """Append T tokens a row to a static cache that holds something already."""
    positions_BT = next_positions(tokens, state)
    mask_BTS = slot_mask(positions_BT, capacity_of(state.layers), tables, bound.get("variant", PLAIN))
    return run_onto(params, tokens, state, tables, count, positions_BT=positions_BT, mask_BTS=mask_BTS, **bound)


def decode_step(
    params: Params, tokens: Int[Array, " B"], state: KVCache, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Append one token a row to a static cache."""
    return extend(params, jnp.expand_dims(tokens, 1), state, tables, **bound)


def decode_step_growing(
    params: Params, tokens: Int[Array, " B"], state: KVCache, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Append one token a row by concatenation; the state returned is one position longer."""
    tokens_B1 = jnp.expand_dims(tokens, 1)
    positions_B1 = next_positions(tokens_B1, state)
    mask_B1S = causal_mask(positions_B1, capacity_of(state.layers) + 1)
    return run_onto(
        params, tokens_B1, state, tables, positions_BT=positions_B1, mask_BTS=mask_B1S, write=write_by_concatenation,
        **bound,
    )  # fmt: skip


def slot_mask(slots_BT: Int[Array, "B T"], keys: int, tables: StepTables, variant: Variant) -> Bool[Array, "B T S"]:
    """Return which keys the queries at ``slots_BT``, places in the cache, see."""
    if variant.mask == "table" and isinstance(tables, Tables):
        return look_up_mask(tables.mask, slots_BT)
    return causal_mask(slots_BT, keys, variant.window)


def next_positions(tokens_BT: Int[Array, "B T"], state: KVCache) -> Int[Array, "B T"]:
    """Return the positions that follow what ``state`` holds."""
    order_1T = jnp.expand_dims(jnp.arange(tokens_BT.shape[1], dtype=jnp.int32), 0)
    return jnp.broadcast_to(order_1T + state.length, tokens_BT.shape)


def run_onto(
    params: Params,
    tokens_BT: Int[Array, "B T"],
    state: KVCache,
    tables: StepTables,
    count: Count = None,
    *,
    config: ModelConfig,
    positions_BT: Int[Array, "B T"],
    mask_BTS: Bool[Array, "B T S"],
    write: Write = write_in_place,
    variant: Variant = PLAIN,
) -> StepResult:
    """Add the tokens' keys and values to the cache with ``write``; attend to what ``mask_BTS`` lets through."""

    def remember(layers: Layers, layer: LayerIndex, new: KeysValues) -> tuple[Layers, KeysValues]:
        return write_layer(layers, layer, new, state.length, write)

    hidden_BTD, layers = forward(
        params,
        config,
        tokens_BT,
        positions_BT=positions_BT,
        mask_BTS=mask_BTS,
        tables=rotary_of(tables),
        remember=remember,
        memory=state.layers,
        variant=variant,
    )
    cache = KVCache(layers=layers, length=state.length + _real(tokens_BT, count))
    return choose(unembed(params, config, _last(hidden_BTD, count), variant), cache)
