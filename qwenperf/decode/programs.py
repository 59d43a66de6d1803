"""How an engine's pure functions are run: as they are, jitted, or compiled ahead of time.

A function compiled ahead of time is looked up by the shape of its tokens alone, so that a state of
another shape is refused by the executable (TypeError) instead of being compiled for in silence. Threads that ask
for one program at a time get the same one, compiled once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from qwenperf.decode.engine import Program
from qwenperf.decode.state import KVCache, byte_size
from qwenperf.workloads.engine import EngineSettings

ARGUMENTS = ("params", "tokens", "state", "tables", "count")
"""What the engine's functions are given, in this order; programs name their arguments after them."""

_HLO_DTYPES = {
    "float32": "f32", "bfloat16": "bf16", "float16": "f16", "int32": "s32", "int8": "s8", "uint16": "u16",
}  # fmt: skip


Key = tuple[int, ...]
Options = dict[str, str] | None
"""Options of the compiler, by name."""


@dataclass(frozen=True)
class Built:
    """One function compiled for one shape of tokens."""

    lowered: jax.stages.Lowered
    compiled: jax.stages.Compiled


@dataclass(frozen=True, kw_only=True)
class Executables:
    """The executables of one function, by key."""

    built: dict[Key, Built] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, key: Key, lower: Callable[[], jax.stages.Lowered]) -> Built:
        """Return the executable for ``key``; compile what ``lower`` returns if it is the first."""
        return self.built.get(key) or self._compile(key, lower)

    def _compile(self, key: Key, lower: Callable[[], jax.stages.Lowered]) -> Built:
        with self.lock:
            if key not in self.built:
                lowered = lower()
                self.built[key] = Built(lowered=lowered, compiled=lowered.compile())
            return self.built[key]


class Compilable(Protocol):
    """A callable that is compiled before it runs anything."""

    @property
    def executables(self) -> Executables:
        """What has been compiled, or loaded, so far."""
        ...

    def key(self, *args: Any) -> Key:
        """Return what a program is looked up by."""
        ...

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Return the program for ``args``, which may be abstract, as it is given to the compiler."""
        ...


@dataclass(frozen=True, kw_only=True)
class AheadOfTime:
    """A ``Compilable`` that has a program for each shape of tokens."""

    jitted: Any
    executables: Executables = field(default_factory=Executables)

    def key(self, *args: Any) -> Key:
        """Return the shape of the tokens."""
        shape: Key = args[1].shape
        return shape

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Return the program for ``args``; see ``Compilable``."""
        lowered: jax.stages.Lowered = self.jitted.lower(*args)
        return lowered

    def __call__(self, *args: Any) -> Any:
        """Run the executable for these tokens' shape."""
        return build(self, *args).compiled(*args)


@dataclass(frozen=True, kw_only=True)
class NewState:
    """A ``Compilable`` that makes the state that a request starts from, with a program for each batch."""

    make: Callable[[int], Any]
    executables: Executables = field(default_factory=Executables)

    def key(self, *args: Any) -> Key:
        """Return the batch."""
        return (int(args[0]),)

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Return the program for a batch; see ``Compilable``."""
        lowered: jax.stages.Lowered = jax.jit(self.make, static_argnums=0).lower(*args)
        return lowered

    def __call__(self, batch: int) -> Any:
        """Return a new state."""
        return build(self, batch).compiled()


@dataclass(frozen=True, kw_only=True)
class InPlace:
    """A ``Compilable`` that makes something of arrays where they lie, with a program for each shape of the first."""

    function: Callable[[Any], Any]
    executables: Executables = field(default_factory=Executables)

    def key(self, *args: Any) -> Key:
        """Return the shape of the first array."""
        shape: Key = jax.tree.leaves(args[0])[0].shape
        return shape

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Return the program for arrays, which are given up; see ``Compilable``."""
        # An array that is not read is kept as an argument, so that there is something to write over.
        jitted = jax.jit(self.function, donate_argnums=0, keep_unused=True)
        lowered: jax.stages.Lowered = jitted.lower(*args)
        return lowered

    def __call__(self, arrays: Any) -> Any:
        """Return what has become of ``arrays``."""
        return build(self, arrays).compiled(arrays)


def build(call: Compilable, *args: Any) -> Built:
    """Return the executable of ``call`` for ``args``, which may be abstract; compile it if it is the first."""
    return call.executables.get(call.key(*args), lambda: call.lower(*args))


def named(name: str, function: Callable[..., Any], **bound: Any) -> Callable[..., Any]:
    """Return ``function`` with ``bound`` filled in, under the name that compile events and traces will show."""

    def call(params: Any, tokens: Any, state: Any, tables: Any, *count: Any) -> Any:
        return function(params, tokens, state, tables, *count, **bound)

    call.__name__ = call.__qualname__ = name
    return call


def abstract_tokens(*shape: int) -> Any:
    """Return what stands for int32 tokens of ``shape`` while compiling."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def compile_options(settings: EngineSettings, platform: str = "") -> Options:
    """Return what the compiler of ``platform``, by default JAX's own, is told beside the program."""
    if settings.fusion != "barriers" or (platform or jax.default_backend()) != "cpu":
        return None
    # On CPU XLA takes barriers away before it fuses, unless that pass, which has an older name, is left out.
    return {"xla_disable_hlo_passes": "cse_barrier_expander"}


def compile_on_call(function: Callable[..., Any], *, options: Options = None) -> Callable[..., Any]:
    """Return ``function`` jitted: it compiles whenever it meets a new shape."""
    return jax.jit(function, compiler_options=options)


def compile_ahead(function: Callable[..., Any], *, donate: bool, options: Options = None) -> AheadOfTime:
    """Return ``function`` as ``AheadOfTime``; ``donate`` gives up the state that it is called with."""
    # Unused arguments are kept, so that a program's parameters are numbered as its arguments are.
    donated = (2,) if donate else ()
    return AheadOfTime(jitted=jax.jit(function, donate_argnums=donated, keep_unused=True, compiler_options=options))


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
