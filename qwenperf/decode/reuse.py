"""What a request leaves to the next one: its arrays, and none of its numbers.

Attention reads a static cache whole and gives what a query does not see the weight 0. That hides any number but NaN
and infinity: 0 * NaN is NaN. So a request whose numbers overflowed would spoil every later one that is shorter,
wherever it left them and whether its own logits told of it or not (an infinite key may have the weight 0). All that is
kept for the next request is therefore filled with zeros, in place, when a request has ended: no program that a token
waits for is another one for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from qwenperf.decode.programs import InPlace
from qwenperf.decode.state import KVCache, TokenBuffer
from qwenperf.workloads.engine import EngineSettings

Clear = Callable[[Any], Any]
"""Takes arrays and gives them up; returns as many zeros."""


def is_reused(settings: EngineSettings) -> bool:
    """Say whether a request's state is kept for the next: one that grows never is."""
    return settings.reuse and settings.shape == "padded"


def make_clear(settings: EngineSettings) -> Clear | None:
    """Return what empties a state, if one is kept; made anew for each engine, so that each compiles the same."""

    def clear(state: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, state)

    if not is_reused(settings):
        return None
    return InPlace(function=clear) if settings.jit else clear


def contents_of(state: KVCache | TokenBuffer) -> Any:
    """Return what of a state the next request would read: not its length, and not what hooks captured."""
    return state.layers if isinstance(state, KVCache) else state.tokens


def emptied(state: Any, clear: Clear) -> Any:
    """Return ``state`` without its numbers; its length, and what hooks captured, stay to be looked at."""
    empty = clear(contents_of(state))
    return state._replace(layers=empty) if isinstance(state, KVCache) else state._replace(tokens=empty)
