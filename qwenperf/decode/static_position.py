"""A position that is a static argument: the classic mistake of passing a Python integer, one program a position.

The state that these functions hand out is a ``KVCache`` whose ``length`` is a Python integer on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.decode.programs import Options
from qwenperf.decode.state import KVCache, StepResult


def at_positions(function: Callable[..., Any], *, donate: bool, options: Options = None) -> Callable[..., Any]:
    """Return a decode step that is compiled anew at each position; ``donate`` gives up the state."""

    def step(params: Any, tokens: Any, state: KVCache, tables: Any, position: int) -> StepResult:
        return _without_length(function(params, tokens, state._replace(length=jnp.int32(position)), tables))

    jitted = _jit(step, function, donate=donate, compiler_options=options, static_argnums=4)

    def call(params: Any, tokens: Any, state: Any, tables: Any) -> StepResult:
        position = int(state.length)
        return _at(jitted(params, tokens, state._replace(length=None), tables, position), position + 1)

    return call


def before_positions(function: Callable[..., Any], *, donate: bool, options: Options = None) -> Callable[..., Any]:
    """Return a prefill whose state knows its position on the host."""

    def read(params: Any, tokens: Any, state: KVCache, tables: Any, *span: Any) -> StepResult:
        return _without_length(function(params, tokens, state, tables, *span))

    jitted = _jit(read, function, donate=donate, compiler_options=options)

    def call(params: Any, tokens: Any, state: Any, tables: Any, *span: Any) -> StepResult:
        result = jitted(params, tokens, state._replace(length=None), tables, *span)
        return _at(result, int(np.sum(span[0])) if span else tokens.shape[1])

    return call


def _jit(call: Callable[..., Any], function: Callable[..., Any], *, donate: bool, **options: Any) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = function.__name__
    return jax.jit(call, donate_argnums=(2,) if donate else (), **options)


def _without_length(result: StepResult) -> StepResult:
    return result._replace(state=result.state._replace(length=None))


def _at(result: StepResult, position: int) -> StepResult:
    return result._replace(state=result.state._replace(length=position))
