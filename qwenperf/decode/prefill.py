"""Prefills that are told which of their tokens are real, so that one program serves many prompt lengths.

They take a ``span`` besides what every step takes: int32 [start, count]. The tokens are ``count`` real ones for the
positions from ``start`` on, and padding behind them. A real token sees no padding, as that comes later; what is
written for padding lies behind the cache's length, where each position is written anew before it is seen.
"""

from __future__ import annotations

from jaxtyping import Array, Int

from qwenperf.decode import step
from qwenperf.decode.state import KVCache, StepResult, StepTables
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params
from qwenperf.models.variant import PLAIN, Variant


def prefill_padded(
    params: Params,
    tokens: Int[Array, "B T"],
    state: KVCache,
    tables: StepTables,
    span: Int[Array, " 2"],
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Read a whole prompt, padded; it attends to itself only."""
    return step.prefill(params, tokens, state, tables, span[1], config=config, variant=variant)


def prefill_chunk(
    params: Params,
    tokens: Int[Array, "B T"],
    state: KVCache,
    tables: StepTables,
    span: Int[Array, " 2"],
    *,
    config: ModelConfig,
    variant: Variant = PLAIN,
) -> StepResult:
    """Read one chunk of a prompt; it attends to all that the cache holds before ``start``, and to itself."""
    state = state._replace(length=span[0])
    return step.extend(params, tokens, state, tables, span[1], config=config, variant=variant)
