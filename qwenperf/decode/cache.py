"""The KV cache as arrays: one pair a layer, [batch * kv heads, positions, head_dim] (why: see ``models.attention``).

A pair a layer rather than one stacked array: each is updated where it lies, and a step that runs its layers
unrolled never slices a stack. A step that scans its layers needs the stack, [layers, batch * kv heads, ...].
Lengths are checked by engines on the host: ``dynamic_update_slice`` would clamp a write that does not fit, and
overwrite the last positions.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from qwenperf.decode.state import KVCache, Layers
from qwenperf.models.attention import KeysValues
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import LayerIndex

Write = Callable[[KeysValues, KeysValues, "int | Int[Array, '']"], KeysValues]
"""Adds new keys and values to old ones, of which the given number of positions is filled."""


def allocate(config: ModelConfig, batch: int, capacity: int, dtype: jnp.dtype, *, stacked: bool = False) -> KVCache:
    """Return an empty static cache for ``capacity`` positions, of all layers in one pair where ``stacked``."""
    shape = (batch * config.num_key_value_heads, capacity, config.head_dim)

    def pair(*layers: int) -> KeysValues:
        return KeysValues(keys=jnp.zeros((*layers, *shape), dtype), values=jnp.zeros((*layers, *shape), dtype))

    count = config.num_hidden_layers
    return KVCache(layers=pair(count) if stacked else tuple(pair() for _ in range(count)), length=jnp.int32(0))


def capacity_of(layers: Layers) -> int:
    """Return the positions that a cache has, filled or not."""
    pair = layers if isinstance(layers, KeysValues) else layers[0]
    return int(pair.keys.shape[-2])


def write_layer(
    layers: Layers, layer: LayerIndex, new: KeysValues, filled: int | Int[Array, ""], write: Write
) -> tuple[Layers, KeysValues]:
    """Return the cache with ``new`` in one layer, and that layer."""
    if isinstance(layers, KeysValues):
        if write is not write_in_place:
            raise NotImplementedError("a stacked cache is written in place only")
        return _write_stacked(layers, layer, new, filled)
    index = int(layer)
    known = write(layers[index], new, filled)
    return (*layers[:index], known, *layers[index + 1 :]), known


def _write_stacked(
    stack: KeysValues, layer: LayerIndex, new: KeysValues, filled: int | Int[Array, ""]
) -> tuple[KeysValues, KeysValues]:
    """Write the new positions alone and read the layer afterwards, so that no layer is written back whole."""
    start = (layer, 0, filled, 0)
    pairs = zip(stack, new, strict=True)
    stack = KeysValues(*(lax.dynamic_update_slice(old, jnp.expand_dims(b, 0), start) for old, b in pairs))
    return stack, KeysValues(*(lax.dynamic_index_in_dim(array, layer, 0, keepdims=False) for array in stack))


def write_in_place(old: KeysValues, new: KeysValues, filled: int | Int[Array, ""]) -> KeysValues:
    """Write ``new`` after the ``filled`` positions of a static pair."""
    return KeysValues(*(lax.dynamic_update_slice_in_dim(a, b, filled, axis=1) for a, b in zip(old, new, strict=True)))


def write_by_concatenation(old: KeysValues, new: KeysValues, _filled: int | Int[Array, ""]) -> KeysValues:
    """Return longer arrays: the classic mistake, a new shape and a copy of the cache in each step."""
    return KeysValues(*(jnp.concatenate(pair, axis=1) for pair in zip(old, new, strict=True)))


def cache_bytes(config: ModelConfig, batch: int, positions: int, itemsize: int) -> int:
    """Return the cache's bytes by formula: 2 * layers * batch * kv_heads * positions * head_dim * itemsize."""
    per_position = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * itemsize
    return batch * positions * per_position
