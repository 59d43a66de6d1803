"""How an engine's pure functions are run: as they are, jitted, or compiled ahead of time.

A function compiled ahead of time is looked up by the shape of its tokens alone, so that a state of
another shape is refused by the executable (TypeError) instead of being compiled for in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from qwenperf.decode.engine import Program
from qwenperf.decode.state import KVCache, byte_size

ARGUMENTS = ("params", "tokens", "state", "tables", "count")
"""What the engine's functions are given, in this order; programs name their arguments after them."""

_HLO_DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "int32": "s32"}


@dataclass(frozen=True)
class Built:
    """One function compiled for one shape of tokens."""

    lowered: jax.stages.Lowered
    compiled: jax.stages.Compiled


@dataclass(frozen=True, kw_only=True)
class AheadOfTime:
    """A callable that compiles itself once for each shape of tokens, before it runs anything."""

    jitted: Any
    built: dict[tuple[int, ...], Built] = field(default_factory=dict)

    def build(self, *args: Any) -> Built:
        """Return the executable for ``args``, which may be abstract; compile it if it is the first of its shape."""
        key = args[1].shape
        if key not in self.built:
            lowered = self.jitted.lower(*args)
            self.built[key] = Built(lowered=lowered, compiled=lowered.compile())
        return self.built[key]

    def __call__(self, *args: Any) -> Any:
        """Run the executable for these tokens' shape."""
        return self.build(*args).compiled(*args)


def named(name: str, function: Callable[..., Any], **bound: Any) -> Callable[..., Any]:
    """Return ``function`` with ``bound`` filled in, under the name that compile events and traces will show."""

    def call(params: Any, tokens: Any, state: Any, tables: Any, *count: Any) -> Any:
        return function(params, tokens, state, tables, *count, **bound)

    call.__name__ = call.__qualname__ = name
    return call


def abstract_tokens(*shape: int) -> Any:
    """Return what stands for int32 tokens of ``shape`` while compiling."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def compile_on_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` jitted: it compiles whenever it meets a new shape."""
    return jax.jit(function)


def compile_ahead(function: Callable[..., Any], *, donate: bool) -> AheadOfTime:
    """Return ``function`` as ``AheadOfTime``; ``donate`` gives up the state that it is called with."""
    # Unused arguments are kept, so that a program's parameters are numbered as its arguments are.
    return AheadOfTime(jitted=jax.jit(function, donate_argnums=(2,) if donate else (), keep_unused=True))


def describe(name: str, built: Built) -> Program:
    """Return what gates read about an executable."""
    arguments, _ = built.lowered.args_info
    leaves = jax.tree.leaves_with_path(arguments)
    donated = [(path, leaf) for path, leaf in leaves if leaf.donated]
    return Program(
        name=name,
        compiled=built.compiled,
        lowered_text=built.lowered.as_text(),
        donated=tuple(_argument_name(path) for path, _ in donated),
        donated_bytes=sum(byte_size(leaf) for _, leaf in donated),
        cache_shapes=_cache_shapes(arguments[2]),
    )


def _argument_name(path: tuple[Any, ...]) -> str:
    return ARGUMENTS[path[0].idx] + jax.tree_util.keystr(path[1:])


def _cache_shapes(state: Any) -> tuple[str, ...]:
    if not isinstance(state, KVCache):
        return ()
    return tuple(dict.fromkeys(_hlo_shape(leaf) for leaf in jax.tree.leaves(state.layers)))


def _hlo_shape(leaf: Any) -> str:
    dtype = _HLO_DTYPES.get(str(leaf.dtype), str(leaf.dtype))
    return f"{dtype}[{','.join(map(str, leaf.shape))}]"
