"""The generation loop on the device: one program for all tokens of a request."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from qwenperf.decode.state import StepFunction, StepTables
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params


def generate(
    params: Params,
    tokens: Int[Array, " B"],
    state: Any,
    tables: StepTables,
    count: Int[Array, ""],
    *,
    config: ModelConfig,
    step: StepFunction,
    capacity: int,
) -> tuple[Int[Array, "B S"], Any]:
    """Return ``count`` tokens a row, starting with ``tokens``, in a buffer as wide as the capacity; and the state.

    ``count`` is data, not shape: requests of other lengths run the same program.
    """
    out_BS = jnp.zeros((tokens.shape[0], capacity), jnp.int32)
    out_BS = lax.dynamic_update_slice_in_dim(out_BS, jnp.expand_dims(tokens, 1), 0, axis=1)

    def body(index: Array, carry: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        tokens_B, out_BS, state = carry
        result = step(params, tokens_B, state, tables, config=config)
        out_BS = lax.dynamic_update_slice_in_dim(out_BS, jnp.expand_dims(result.token, 1), index, axis=1)
        return result.token, out_BS, result.state

    _, out_BS, state = lax.fori_loop(jnp.int32(1), count, body, (tokens, out_BS, state))
    return out_BS, state
