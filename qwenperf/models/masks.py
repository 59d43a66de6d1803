"""The mask of every position as a table that is made once, to be looked up where others compare."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

MaskTable = Bool[Array, "S S"]


def make_mask_table(length: int, window: int = 0) -> MaskTable:
    """Return which of ``length`` keys the query at each position sees; made with numpy: nothing is compiled for it."""
    seen = np.tri(length, dtype=np.bool_)
    if window:
        seen &= ~np.tri(length, k=-window, dtype=np.bool_)
    table: jax.Array = jax.device_put(seen)
    return table


def look_up_mask(table: MaskTable, positions_BT: Int[Array, "B T"]) -> Bool[Array, "B T S"]:
    """Read the table at ``positions_BT``, which are within it (engines check that on the host)."""
    return table.at[positions_BT].get(mode="promise_in_bounds")


def first_masks(table: MaskTable, batch: int, length: int) -> Bool[Array, "B T T"]:
    """Return the table's part for a sequence that begins at position 0 and sees itself only."""
    return jnp.broadcast_to(jnp.expand_dims(table[:length, :length], 0), (batch, length, length))
