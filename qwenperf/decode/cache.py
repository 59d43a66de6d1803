"""The KV cache as arrays: how it is allocated, and how a layer's new keys and values are written to it.

A pair of arrays a layer, each updated where it lies; or, stacked, one pair with the layers on a first axis, which is
what a step that scans its layers needs. The order of the other axes and the dtype are settings (see
``models.keys_values``); what is written takes the dtype of what is there. Lengths are checked by engines on the host:
``dynamic_update_slice`` would clamp a write that does not fit, and overwrite the last positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from qwenperf.decode.state import KVCache, Layers
from qwenperf.models.attention import KeysValues
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import LayerIndex
from qwenperf.models.keys_values import BITS, Stored, store
from qwenperf.models.scaled import Scaled
from qwenperf.workloads.engine import EngineSettings

Filled = int | Int[Array, ""]
Write = Callable[[KeysValues, KeysValues, Filled], KeysValues]
"""Adds new keys and values to old ones, of which the given number of positions is filled."""

PLAIN = EngineSettings()


def is_stacked(settings: EngineSettings) -> bool:
    """Say whether all layers are in one pair of arrays; a scan over layers leaves no choice."""
    return settings.cache_layout == "stacked" or settings.layers == "scanned"


def allocate(
    config: ModelConfig,
    batch: int,
    capacity: int,
    dtype: jnp.dtype,
    settings: EngineSettings = PLAIN,
    *,
    platform: str = "",
) -> KVCache:
    """Return an empty static cache for ``capacity`` positions; ``dtype`` is the model's.

    For ``platform`` ``cpu`` bfloat16 numbers are kept as their bits, see ``keys_values.BITS``.
    """
    heads, size, count = config.num_key_value_heads, config.head_dim, config.num_hidden_layers
    by_position = settings.cache_layout == "position-major"
    shape = (batch, capacity, heads, size) if by_position else (batch * heads, capacity, size)

    def pair(*layers: int) -> KeysValues:
        one = partial(_zeros, (*layers, *shape), settings.cache_dtype, dtype, as_bits=platform == "cpu")
        return KeysValues(keys=one(), values=one())

    layers = pair(count) if is_stacked(settings) else tuple(pair() for _ in range(count))
    return KVCache(layers=layers, length=jnp.int32(0))


def _zeros(shape: tuple[int, ...], cache_dtype: str, dtype: jnp.dtype, *, as_bits: bool) -> Stored:
    if cache_dtype == "int8":
        return Scaled(whole=jnp.zeros(shape, jnp.int8), scale=jnp.zeros(shape[:-1], jnp.float32))
    kind = jnp.dtype(jnp.bfloat16 if cache_dtype == "bf16" else dtype)
    return jnp.zeros(shape, BITS if as_bits and kind == jnp.bfloat16 else kind)


def capacity_of(layers: Layers) -> int:
    """Return the positions that a cache has, filled or not."""
    stacked = isinstance(layers, KeysValues)
    pair = layers if isinstance(layers, KeysValues) else layers[0]
    return int(pair.keys.shape[2 if stacked else 1])


def write_layer(
    layers: Layers, layer: LayerIndex, new: KeysValues, filled: Filled, write: Write
) -> tuple[Layers, KeysValues]:
    """Return the cache with ``new`` in one layer, and that layer."""
    if isinstance(layers, KeysValues):
        return _write_stacked(layers, layer, store(new, layers), filled, write)
    index = int(layer)
    known = write(layers[index], store(new, layers[index]), filled)
    return (*layers[:index], known, *layers[index + 1 :]), known


def _write_stacked(
    stack: KeysValues, layer: LayerIndex, new: KeysValues, filled: Filled, write: Write
) -> tuple[KeysValues, KeysValues]:
    """Write the new positions alone and read the layer afterwards, so that no layer is written back whole."""
    if write is not write_in_place:
        known = write(_layer_of(stack, layer), new, filled)
        return _put(stack, known, (layer,)), known
    stack = _put(stack, new, (layer, 0, filled))
    return stack, _layer_of(stack, layer)


def _put(stack: KeysValues, new: KeysValues, start: tuple[Filled, ...]) -> KeysValues:
    def put(old: Array, part: Array) -> Array:
        zeros = (0,) * (old.ndim - len(start))
        return lax.dynamic_update_slice(old, jnp.expand_dims(part, 0), (*start, *zeros))

    return KeysValues(*jax.tree.map(put, stack, new))


def _layer_of(stack: KeysValues, layer: LayerIndex) -> KeysValues:
    return KeysValues(*jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, layer, 0, keepdims=False), stack))


def write_in_place(old: KeysValues, new: KeysValues, filled: Filled) -> KeysValues:
    """Write ``new`` after the ``filled`` positions of a static pair."""
    put = partial(lax.dynamic_update_slice_in_dim, start_index=filled, axis=1)
    return KeysValues(*jax.tree.map(put, old, new))


def write_by_concatenation(old: KeysValues, new: KeysValues, _filled: Filled) -> KeysValues:
    """Return longer arrays: the classic mistake, a new shape and a copy of the cache in each step."""
    return KeysValues(*jax.tree.map(lambda *pair: jnp.concatenate(pair, axis=1), old, new))


SCALE_BYTES = 4


def cache_bytes(config: ModelConfig, batch: int, positions: int, itemsize: int, cache_dtype: str = "native") -> int:
    """Return the cache's bytes by formula: 2 * layers * batch * kv_heads * positions * head_dim * itemsize.

    An int8 cache has in place of ``head_dim * itemsize`` head_dim bytes and a scale of 4.
    """
    size = config.head_dim
    row = {"native": size * itemsize, "bf16": size * 2, "int8": size + SCALE_BYTES}[cache_dtype]
    return 2 * config.num_hidden_layers * batch * config.num_key_value_heads * positions * row
