"""Rows of whole numbers of 8 bits, each row with a scale of its own: what an int8 cache holds, and int8 activations."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

_MOST = 127


class Scaled(NamedTuple):
    """Whole numbers of 8 bits, and what 1 is worth in each of their rows."""

    whole: Int8[Array, "*axes C"]
    scale: Float[Array, "*axes"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the numbers that this stands for."""
        return self.whole.shape

    @property
    def ndim(self) -> int:
        """How many there are."""
        return self.whole.ndim


def quantize_rows(x: Float[Array, "*axes C"]) -> Scaled:
    """Round each row to whole numbers from -127 to 127 of its own scale; a row of zeros keeps the scale 0."""
    wide = x.astype(jnp.float32)
    scale = jnp.max(jnp.abs(wide), axis=-1) / _MOST
    steps = wide / jnp.expand_dims(jnp.where(scale > 0, scale, jnp.float32(1)), -1)
    return Scaled(whole=jnp.round(steps).astype(jnp.int8), scale=scale)
