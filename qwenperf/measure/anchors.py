"""Two kernels that no change touches: what they take differs with the machine alone.

Timed beside the cases in every round, they say whether base and head had the same machine. One is bound by memory, one
by arithmetic, because a neighbour may take either.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

_MEGABYTES = 64
_SIDE = 512
_PRODUCTS = 4


def make_anchors() -> dict[str, Callable[[], jax.Array]]:
    """Return kernels by name, compiled and run once: ``anchor/memory`` reads 64 MB, ``anchor/compute`` multiplies."""
    block = jnp.ones((_MEGABYTES, 262_144), jnp.float32)
    square = jnp.full((_SIDE, _SIDE), 1 / _SIDE, jnp.float32)

    @jax.jit
    def anchor_memory(block: jax.Array) -> jax.Array:
        return jnp.sum(block)

    @jax.jit
    def anchor_compute(square: jax.Array) -> jax.Array:
        product = square
        for _ in range(_PRODUCTS):
            product = product @ square
        return product

    anchors: dict[str, Callable[[], jax.Array]] = {
        "anchor/memory": lambda: anchor_memory(block),
        "anchor/compute": lambda: anchor_compute(square),
    }
    for run in anchors.values():
        run().block_until_ready()
    return anchors
