"""Prefill and step without a KV cache: the whole sequence again for every token. Signatures as in ``step``.

Even so only the last position is unembedded: the slow rungs are no slower than their names say.
"""

from __future__ import annotations

from typing import Unpack

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from qwenperf.decode.state import Bound, StepResult, StepTables, TokenBuffer, choose, rotary_of
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params, forward, unembed, whole_sequence
from qwenperf.models.variant import PLAIN, Variant


def prefill_sequence(
    params: Params, tokens: Int[Array, "B T"], state: None, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Run the whole sequence; the state is the sequence itself."""
    del state
    return choose(_last_logits(params, tokens, tables, **bound), tokens)


def step_sequence(
    params: Params, tokens: Int[Array, " B"], state: Int[Array, "B T"], tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Append one token a row and run the sequence, one longer than before, again."""
    longer_BT = jnp.concatenate((state, jnp.expand_dims(tokens, 1)), axis=1)
    return prefill_sequence(params, longer_BT, None, tables, **bound)


def prefill_buffer(
    params: Params, tokens: Int[Array, "B T"], state: TokenBuffer, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Write the prompt to the start of the buffer and run all of the buffer."""
    return _run_buffer(params, tokens, state._replace(length=jnp.int32(0)), tables, **bound)


def step_buffer(
    params: Params, tokens: Int[Array, " B"], state: TokenBuffer, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    """Append one token a row and run all of the buffer again."""
    return _run_buffer(params, jnp.expand_dims(tokens, 1), state, tables, **bound)


def _run_buffer(
    params: Params, tokens: Int[Array, "B T"], state: TokenBuffer, tables: StepTables, **bound: Unpack[Bound]
) -> StepResult:
    buffer_BS = lax.dynamic_update_slice_in_dim(state.tokens, tokens, state.length, axis=1)
    length = state.length + jnp.int32(tokens.shape[1])
    # What lies behind the last token is never seen: the mask is causal.
    logits_B1V = _last_logits(params, buffer_BS, tables, length, **bound)
    return choose(logits_B1V, TokenBuffer(tokens=buffer_BS, length=length))


def _last_logits(
    params: Params,
    tokens_BT: Int[Array, "B T"],
    tables: StepTables,
    length: Int[Array, ""] | None = None,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> Float[Array, "B 1 V"]:
    """Return the logits behind the last of ``length`` tokens, or of all."""
    positions_BT, mask_BTT = whole_sequence(tokens_BT)
    hidden_BTD, _ = forward(
        params, config, tokens_BT, positions_BT=positions_BT, mask_BTS=mask_BTT, tables=rotary_of(tables),
        variant=variant,
    )  # fmt: skip
    last_B1D = hidden_BTD[:, -1:] if length is None else lax.dynamic_slice_in_dim(hidden_BTD, length - 1, 1, axis=1)
    return unembed(params, config, last_B1D, variant)
