"""The compiled program behind somebody's jitted step, with what the caller donates to it."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import jax
import numpy as np

from qwenperf.decode.engine import Program

CACHE_AXES = 3
"""Keys have positions, heads or rows, and a width; what has fewer axes is tokens, lengths or a mask."""

_HLO_NAMES = {"float": "f", "bfloat": "bf", "int": "s", "uint": "u", "complex": "c"}


@dataclass(frozen=True, kw_only=True)
class ArgumentArray:
    """One array that a program is called with: its key path, what JAX knows of it, and what the caller gave."""

    path: str
    info: Any
    given: Any

    @property
    def donated(self) -> bool:
        """Whether the caller gives it up."""
        return bool(self.info.donated)


def arguments(step: Callable[..., Any], args: tuple[Any, ...], lowered: Any) -> list[ArgumentArray]:
    """Return the arrays that the program of ``step``, lowered for ``args``, takes; static arguments are none."""
    step, args = unwrap(step, args)
    traced = _traced(step, args, lowered.args_info[0])
    infos = jax.tree_util.tree_flatten_with_path(lowered.args_info)[0]
    given = jax.tree.leaves([value for _, value in traced])
    # Keyword arguments have no place among these values.
    given += [None] * (len(infos) - len(given))
    names = [name for name, _ in traced]
    return [
        ArgumentArray(path=_argument(names, path), info=info, given=value)
        for (path, info), value in zip(infos, given, strict=True)
    ]


def program_of(name: str, step: Callable[..., Any], *args: Any, state: Any) -> Program | None:
    """Lower and compile ``step`` for ``args``; ``None`` where it is not jitted, so that there is no one program.

    ``state`` is the part of ``args`` that a step passes on to the next one: the cache and what goes with it.
    """
    step, args, named = _unwrap_all(step, args)
    lower = getattr(step, "lower", None)
    if lower is None:
        return None
    lowered = lower(*args, **named)
    compiled = lowered.compile()
    arrays = _parts(arguments(step, args, lowered), lowered, compiled)
    donated = [(one, part) for one, part in arrays if one.donated]
    whole = _arrays(state)
    cache = [part for one, part in arrays if any(one.given is leaf for leaf in whole)]
    if len(cache) < len(whole):  # a node of somebody's may make new leaves each time that it is flattened
        cache = whole
    return Program(
        name=name,
        compiled=compiled,
        lowered_text=lowered.as_text(),
        donated=tuple(one.path for one, _ in donated),
        donated_bytes=sum(_nbytes(part) for _, part in donated),
        cache_shapes=tuple(sorted({hlo_shape(part) for part in cache})),
        cache_bytes=cache_bytes(state),
        cache_part_bytes=sum(_nbytes(part) for part in cache),
    )


def abstract_result(function: Callable[..., Any], *args: Any) -> Any:
    """Return shapes and dtypes of what a jitted ``function`` returns, without running it; ``None`` for any other."""
    function, args, named = _unwrap_all(function, args)
    eval_shape = getattr(function, "eval_shape", None)
    return None if eval_shape is None else eval_shape(*args, **named)


def cache_bytes(state: Any) -> int:
    """Return the bytes of the arrays in ``state`` that can hold keys or values: three axes or more."""
    return sum(_nbytes(leaf) for leaf in _arrays(state))


def hlo_shape(array: Any) -> str:
    """Write the shape of ``array`` as HLO does: ``f32[1,2,36,64]``."""
    name = array.dtype.name
    kind = name.rstrip("0123456789")
    return f"{_HLO_NAMES.get(kind, kind)}{name[len(kind) :]}[{','.join(str(size) for size in array.shape)}]"


def same_structure(one: Any, other: Any) -> bool:
    """Say whether two trees have the same nodes, whatever their leaves are."""
    structure: Any = jax.tree.structure(one)
    return bool(structure == jax.tree.structure(other))


def _arrays(state: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(state) if len(getattr(leaf, "shape", ())) >= CACHE_AXES]


def _parts(found: list[ArgumentArray], lowered: Any, compiled: Any) -> list[tuple[ArgumentArray, Any]]:
    """Return each array with the shape and dtype of what one device has of it: so the compiled program is written."""
    structure: Any = jax.tree.structure(lowered.args_info)
    shardings = structure.flatten_up_to(compiled.input_shardings)
    return [(one, _part(one.info, sharding)) for one, sharding in zip(found, shardings, strict=True)]


def _part(info: Any, sharding: Any) -> Any:
    # The sharding of an argument that the program does not use is not known.
    shape = info.shape if sharding is None else sharding.shard_shape(info.shape)
    return jax.ShapeDtypeStruct(shape, info.dtype)


def unwrap(step: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the function behind partials and methods, with the arguments that they have; keywords stay with theirs."""
    while True:
        if isinstance(step, functools.partial) and not step.keywords:
            step, args = step.func, (*step.args, *args)
        elif isinstance(step, MethodType):
            step, args = step.__func__, (step.__self__, *args)
        else:
            return step, args


def _unwrap_all(step: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function behind all partials and methods, with their arguments and keywords."""
    named = dict[str, Any]()
    while True:
        step, args = unwrap(step, args)
        if not isinstance(step, functools.partial):
            return step, args, named
        step, args, named = step.func, (*step.args, *args), {**step.keywords, **named}


def parameters(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names under which ``arguments`` tells the first ``count`` that ``function`` is given by position."""
    inner, bound = unwrap(function, ())
    return _names(inner, len(bound) + count)[len(bound) :]


def _traced(step: Callable[..., Any], args: tuple[Any, ...], infos: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return names and values of the positional parameters that a program has: static ones are no part of it."""
    named = list(zip(_names(step, len(args)), args, strict=True))
    # An array is never static and a number may be: where the arrays alone are all there is, no number is taken for one.
    for is_data in (_is_array, _is_data):
        found = list[tuple[str, Any]]()
        for name, value in named:
            if len(found) < len(infos) and _fits(value, infos[len(found)], is_data):
                found.append((name, value))
        if len(found) == len(infos):
            return found
    return named[len(named) - len(infos) :]


def _names(step: Callable[..., Any], count: int) -> list[str]:
    """Return the names of ``count`` positional parameters; those of ``*args`` are numbered."""
    kinds = inspect.signature(step).parameters.values()
    named = [one.name for one in kinds if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    rest = next((one.name for one in kinds if one.kind is one.VAR_POSITIONAL), "args")
    return [*named[:count], *(f"{rest}[{index}]" for index in range(count - len(named[:count])))]


def _fits(value: Any, info: Any, is_data: Callable[[Any], bool]) -> bool:
    """Say whether ``value`` may be what a program takes as ``info``; a static number rarely looks like an array."""
    leaves, known = jax.tree.leaves(value), jax.tree.leaves(info)
    if not same_structure(value, info) or not all(map(is_data, leaves)):
        return False
    return all(np.shape(leaf) == one.shape for leaf, one in zip(leaves, known, strict=True))


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype")


def _is_data(leaf: Any) -> bool:
    return _is_array(leaf) or isinstance(leaf, int | float | complex)


def _argument(names: list[str], path: tuple[Any, ...]) -> str:
    """Write the path of an argument from its name on: ``state.kv_caches[0]``."""
    side, which, *rest = path
    name = getattr(which, "key", None) if side.idx else names[which.idx]
    return f"{name}{jax.tree_util.keystr(tuple(rest))}"


def _nbytes(info: Any) -> int:
    return int(math.prod(info.shape) * info.dtype.itemsize)
