"""The KV cache as arrays: one pair a layer, [batch * kv heads, positions, head_dim] (why: see ``models.attention``).

A pair a layer rather than one stacked array: each is updated where it lies, and a step that runs its layers
unrolled never slices a stack. Lengths are checked by engines on the host: ``dynamic_update_slice``
would clamp a write that does not fit, and overwrite the last positions.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from qwenperf.decode.state import KVCache
from qwenperf.models.attention import KeysValues
from qwenperf.models.config import ModelConfig

Write = Callable[[KeysValues, KeysValues, "int | Int[Array, '']"], KeysValues]
"""Adds new keys and values to old ones, of which the given number of positions is filled."""


def allocate(config: ModelConfig, batch: int, capacity: int, dtype: jnp.dtype) -> KVCache:
    """Return an empty static cache for ``capacity`` positions."""
    shape = (batch * config.num_key_value_heads, capacity, config.head_dim)
    layers = tuple(
        KeysValues(keys=jnp.zeros(shape, dtype), values=jnp.zeros(shape, dtype))
        for _ in range(config.num_hidden_layers)
    )
    return KVCache(layers=layers, length=jnp.int32(0))


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
