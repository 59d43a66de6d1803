"""Prefill and step without a KV cache: the whole sequence again for every token. Signatures as in ``step``.

Even so only the last position is unembedded: the slow rungs are no slower than their names say.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from qwenperf.decode.state import StepResult, StepTables, TokenBuffer, choose, rotary_of
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params, forward, unembed, whole_sequence
from qwenperf.models.variant import PLAIN, Variant


def prefill_sequence(
    params: Params,
    tokens: Int[Array, "B T"],
    state: None,
    tables: StepTables,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Run the whole sequence; the state is the sequence itself."""
    del state
    positions_BT, mask_BTT = whole_sequence(tokens)
    hidden_BTD, _ = forward(
        params, config, tokens, positions_BT=positions_BT, mask_BTS=mask_BTT, tables=rotary_of(tables), variant=variant
    )
    return choose(unembed(params, config, hidden_BTD[:, -1:], variant), tokens)


def step_sequence(
    params: Params,
    tokens: Int[Array, " B"],
    state: Int[Array, "B T"],
    tables: StepTables,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Append one token a row and run the sequence, one longer than before, again."""
    longer_BT = jnp.concatenate((state, jnp.expand_dims(tokens, 1)), axis=1)
    return prefill_sequence(params, longer_BT, None, tables, config=config, variant=variant)


def prefill_padded(
    params: Params,
    tokens: Int[Array, "B T"],
    state: TokenBuffer,
    tables: StepTables,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Write the prompt to the start of the buffer and run all of the buffer."""
    return _run_buffer(params, tokens, state._replace(length=jnp.int32(0)), tables, config=config, variant=variant)


def step_padded(
    params: Params,
    tokens: Int[Array, " B"],
    state: TokenBuffer,
    tables: StepTables,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Append one token a row and run all of the buffer again."""
    return _run_buffer(params, jnp.expand_dims(tokens, 1), state, tables, config=config, variant=variant)


def _run_buffer(
    params: Params,
    tokens: Int[Array, "B T"],
    state: TokenBuffer,
    tables: StepTables,
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    buffer_BS = lax.dynamic_update_slice_in_dim(state.tokens, tokens, state.length, axis=1)
    length = state.length + jnp.int32(tokens.shape[1])
    # What lies behind the last token is never seen: the mask is causal.
    positions_BS, mask_BSS = whole_sequence(buffer_BS)
    hidden_BSD, _ = forward(
        params,
        config,
        buffer_BS,
        positions_BT=positions_BS,
        mask_BTS=mask_BSS,
        tables=rotary_of(tables),
        variant=variant,
    )
    last_B1D = lax.dynamic_slice_in_dim(hidden_BSD, length - 1, 1, axis=1)
    return choose(unembed(params, config, last_B1D, variant), TokenBuffer(tokens=buffer_BS, length=length))
