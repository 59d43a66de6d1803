"""Keys and values of a layer as attention reads them, in either order and in any dtype that a cache may have.

    head-major       [N, S, C]       N = B K, one for each row and key/value head
    position-major   [B, S, K, C]

Which of the two, an array's rank says. An int8 array comes with its scales, one for each head and position: that is
``Scaled``. An array of ``BITS`` holds bfloat16 numbers as they lie in memory. Axis 1 is the position in all of them,
scales included.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from qwenperf.models.scaled import Scaled, quantize_rows

Stored = Array | Scaled

BITS = jnp.dtype(jnp.uint16)
"""What XLA on CPU updates in place. A bfloat16 array it widens as a whole, updates, and narrows again, each step."""


class KeysValues(NamedTuple):
    """Rotated keys and values of one layer: what a cache holds. Stacked, those of all layers on a first axis."""

    keys: Stored
    values: Stored


def read(stored: Stored, dtype: jnp.dtype) -> Array:
    """Return the numbers that are stored, in ``dtype``."""
    if isinstance(stored, Scaled):
        return (stored.whole.astype(jnp.float32) * jnp.expand_dims(stored.scale, -1)).astype(dtype)
    return numbers(stored).astype(dtype)


def numbers(stored: Array) -> Array:
    """Return the numbers of an array that may hold their bits."""
    return lax.bitcast_convert_type(stored, jnp.bfloat16) if stored.dtype == BITS else stored


def store(new: KeysValues, like: KeysValues) -> KeysValues:
    """Return ``new`` in the dtype of a cache."""
    return KeysValues(*(_store(array, kept) for array, kept in zip(new, like, strict=True)))


def _store(array: Stored, like: Stored) -> Stored:
    if isinstance(array, Scaled):
        return array
    if isinstance(like, Scaled):
        return quantize_rows(array)
    if like.dtype == BITS:
        return lax.bitcast_convert_type(array.astype(jnp.bfloat16), BITS)
    return array.astype(like.dtype)


def in_order(x_BTKC: Float[Array, "B T K C"], layout: str) -> Array:
    """Return new keys or values in the order of a cache of ``layout``."""
    if layout == "position-major":
        return x_BTKC
    batch, length, heads, size = x_BTKC.shape
    return x_BTKC.swapaxes(1, 2).reshape(batch * heads, length, size)


def heads_of(stored: Stored, batch: int) -> int:
    """Return the key/value heads of an array of ``batch`` rows."""
    return stored.shape[0] // batch if stored.ndim == 3 else stored.shape[2]


def slice_of(known: KeysValues, start: Array, size: int) -> KeysValues:
    """Return ``size`` positions from ``start`` on."""
    return KeysValues(*jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size, axis=1), known))
