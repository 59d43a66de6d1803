"""Prefill, step and loop over rows that differ: in length, in how they are sampled, in when they end.

Pure functions of ``(params, tokens, state, tables, request)`` around those of ``step``. Prompts stand at the right
end of their rows (see ``prompts``), so slots of the cache are common to all rows and positions are not:

    position = slot - pads[row]        a token sees slots from pads[row] to its own

Everything that a request may choose is data, so that another choice runs the same program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int

from qwenperf.decode.cache import capacity_of
from qwenperf.decode.hooks import Hooks, hooked
from qwenperf.decode.sampling import Rules, draw
from qwenperf.decode.state import KVCache, StepResult, StepTables
from qwenperf.decode.step import prefill, run_onto, slot_mask
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params
from qwenperf.models.variant import Variant


class Request(NamedTuple):
    """What one request asks for, as data.

    ``keys`` are typed PRNG keys, one a row; ``stops`` marks the tokens that end a row; ``pad`` follows them;
    ``most`` is how many tokens a row may get.
    """

    pads: Int[Array | np.ndarray, " B"]
    keys: Array
    rules: Rules
    stops: Bool[Array | np.ndarray, "B V"]
    pad: Int[Array | np.ndarray, ""]
    most: Int[Array | np.ndarray, ""]


class RowState(NamedTuple):
    """The cache, which rows have ended, and how many tokens of each count."""

    cache: KVCache
    ended: Bool[Array, " B"]
    counts: Int[Array, " B"]


class RowResult(NamedTuple):
    """What a step returns.

    ``token`` is the padding token in rows that had ended before, and ``ended`` says which have ended now; both are
    the caller's to keep, while ``state`` goes into the next step. ``captured`` is what hooks captured, by point.
    """

    token: Int[Array, " B"]
    ended: Bool[Array, " B"]
    captured: dict[str, Array]
    state: RowState


def prefill_rows(
    params: Params,
    tokens: Int[Array, "B T"],
    state: RowState,
    tables: StepTables,
    request: Request,
    *,
    config: ModelConfig,
    variant: Variant,
    hooks: Hooks,
) -> RowResult:
    """Read the prompts and choose the first token of each row; what the state held before is forgotten."""
    result, captured = hooked(prefill, variant, hooks)(
        params,
        tokens,
        state.cache,
        tables,
        config=config,
        attention_mask_BT=_from_slot(request.pads, tokens.shape[1]),
    )
    empty = RowState(cache=state.cache, ended=jnp.zeros_like(state.ended), counts=jnp.zeros_like(state.counts))
    return _choose(result, captured, empty, request)


def step_rows(
    params: Params,
    tokens: Int[Array, " B"],
    state: RowState,
    tables: StepTables,
    request: Request,
    *,
    config: ModelConfig,
    variant: Variant,
    hooks: Hooks,
) -> RowResult:
    """Append one token a row and choose the next."""
    slots_B1 = jnp.expand_dims(jnp.broadcast_to(state.cache.length, tokens.shape), 1)
    capacity = capacity_of(state.cache.layers)
    own_B1S = jnp.expand_dims(_from_slot(request.pads, capacity), 1)
    result, captured = hooked(run_onto, variant, hooks)(
        params,
        jnp.expand_dims(tokens, 1),
        state.cache,
        tables,
        config=config,
        positions_BT=slots_B1 - jnp.expand_dims(request.pads, 1),
        mask_BTS=slot_mask(slots_B1, capacity, tables, variant) & own_B1S,
    )
    return _choose(result, captured, state, request)


def generate_rows(
    params: Params,
    tokens: Int[Array, " B"],
    state: RowState,
    tables: StepTables,
    request: Request,
    *,
    capacity: int,
    **bound: Any,
) -> tuple[Int[Array, "B S"], RowState]:
    """Return at most ``request.most`` tokens a row, ``tokens`` the first; the loop ends when all rows have ended."""
    out_BS = jnp.broadcast_to(request.pad, (tokens.shape[0], capacity))
    out_BS = lax.dynamic_update_slice_in_dim(out_BS, jnp.expand_dims(tokens, 1), 0, axis=1)

    def go_on(carry: tuple[Array, Array, Array, RowState]) -> Bool[Array, ""]:
        index, _, _, state = carry
        return (index < request.most) & ~jnp.all(state.ended)

    def body(carry: tuple[Array, Array, Array, RowState]) -> tuple[Array, Array, Array, RowState]:
        index, tokens_B, out_BS, state = carry
        result = step_rows(params, tokens_B, state, tables, request, **bound)
        out_BS = lax.dynamic_update_slice_in_dim(out_BS, jnp.expand_dims(result.token, 1), index, axis=1)
        return index + jnp.int32(1), result.token, out_BS, result.state

    _, _, out_BS, state = lax.while_loop(go_on, body, (jnp.int32(1), tokens, out_BS, state))
    return out_BS, state


def _choose(result: StepResult, captured: dict[str, Array], state: RowState, request: Request) -> RowResult:
    """Draw the next token of each row that had not ended in ``state``."""
    drawn_B = draw(result.logits, request.keys, result.state.length - request.pads, request.rules)
    token_B = jnp.where(state.ended, request.pad, drawn_B)
    stops_B = jnp.squeeze(jnp.take_along_axis(request.stops, jnp.expand_dims(token_B, 1), axis=1), 1)
    ended_B = state.ended | stops_B
    counts_B = state.counts + jnp.where(state.ended, 0, 1).astype(jnp.int32)
    after = RowState(cache=result.state, ended=ended_B, counts=counts_B)
    return RowResult(token=token_B, ended=ended_B, captured=captured, state=after)


def _from_slot(first_B: Int[Array | np.ndarray, " B"], slots: int) -> Bool[Array, "B S"]:
    """Return True at slots from ``first_B`` on."""
    return jnp.expand_dims(jnp.arange(slots, dtype=jnp.int32), 0) >= jnp.expand_dims(first_B, 1)
