"""Prefills that are told which of their tokens are real, so that one program serves many prompt lengths.

They take a ``span`` besides what every step takes: int32 [start, count]. The tokens are ``count`` real ones for the
positions from ``start`` on, and padding behind them. A real token sees no padding, as that comes later; what is
written for padding lies behind the cache's length, where each position is written anew before it is seen.
"""

from __future__ import annotations

from typing import Unpack

from jaxtyping import Array, Int

from qwenperf.decode import step
from qwenperf.decode.state import Bound, KVCache, StepResult, StepTables
from qwenperf.models.decoder import Params


def prefill_padded(
    params: Params, tokens: Int[Array, "B T"], state: KVCache, tables: StepTables, span: Int[Array, " 2"],
    **bound: Unpack[Bound],
) -> StepResult:  # fmt: skip
    """Read a whole prompt, padded; it attends to itself only."""
    return step.prefill(params, tokens, state, tables, span[1], **bound)


def prefill_chunk(
    params: Params, tokens: Int[Array, "B T"], state: KVCache, tables: StepTables, span: Int[Array, " 2"],
    **bound: Unpack[Bound],
) -> StepResult:  # fmt: skip
    """Read one chunk of a prompt; it attends to all that the cache holds before ``start``, and to itself."""
    return step.extend(params, tokens, state._replace(length=span[0]), tables, span[1], **bound)
