"""``model.apply(params, ids, kv_caches=..., position_offset=...) -> (logits, kv_caches)`` as an engine.

Works for a ``flax.linen`` module and for any object with such an ``apply``; Flax itself is not imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from qwenperf.adapters.steps import StepsEngine


@functools.partial(jax.tree_util.register_dataclass, data_fields=("kv_caches", "position_offset"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class FlaxState:
    """What one step hands to the next: the model's caches, and how many tokens are in them."""

    kv_caches: Any
    position_offset: Any


def flax_engine(
    model: Any,
    params: Any,
    *,
    make_caches: Callable[[int], Any] | None = None,
    uncached: Callable[[Any], jax.Array] | None = None,
    jit: bool = True,
    donate: bool = True,
    name: str = "",
) -> StepsEngine:
    """Return an engine that prefills and decodes through ``model.apply``, and knows its uncached logits.

    Prefill passes ``make_caches(batch)``, the pre-allocated caches, or ``None`` where the model makes its own.
    ``position_offset`` is the number of tokens before the first of ``ids``: 0 in prefill, an int32 scalar in a step.

    Args:
      model: has ``apply``.
      params: what ``apply`` takes first.
      make_caches: from batch size to caches.
      uncached: tokens [B, T] to logits [B, T, V]; by default one ``apply`` of the whole sequence without caches.
      jit: compile prefill and step; switch it off where ``apply`` is jitted already, or to measure it op by op.
      donate: with ``jit``, let a step update the state in place.
      name: what messages call the engine; the model's class by default.
    """

    def prefill(params: Any, input_ids: Any) -> tuple[Any, FlaxState]:
        kv_caches = None if make_caches is None else make_caches(input_ids.shape[0])
        logits, kv_caches = model.apply(params, input_ids, kv_caches=kv_caches, position_offset=0)
        return logits, FlaxState(kv_caches=kv_caches, position_offset=np.int32(input_ids.shape[1]))

    def decode_step(params: Any, input_id: Any, state: FlaxState) -> tuple[Any, FlaxState]:
        position = state.position_offset
        logits, caches = model.apply(params, input_id[:, None], kv_caches=state.kv_caches, position_offset=position)
        return logits, FlaxState(kv_caches=caches, position_offset=position + 1)

    def uncached_forward(params: Any, input_ids: Any) -> Any:
        return model.apply(params, input_ids, kv_caches=None, position_offset=0)[0]

    if jit:
        prefill, uncached_forward = jax.jit(prefill), jax.jit(uncached_forward)
        decode_step = jax.jit(decode_step, donate_argnames=("state",) if donate else ())
    return StepsEngine(
        name=name or type(model).__name__,
        first=functools.partial(prefill, params),
        step=functools.partial(decode_step, params),
        uncached_logits=uncached or functools.partial(uncached_forward, params),
    )
