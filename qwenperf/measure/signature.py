"""What a call looked like to JAX: shape, dtype, weak type and sharding of each argument, by key path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from qwenperf.schema.records import CompileCause

_SHORT_KINDS = {"f": "f", "i": "i", "u": "u", "c": "c"}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One array argument, one Python scalar (with its value in ``static``), or any other value (``static`` alone)."""

    shape: str = ""
    dtype: str = ""
    weak_type: bool = False
    sharding: str = ""
    static: str = ""


Signature = Mapping[str, Leaf]


def signature_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Signature:
    """Describe the arguments of one call by key path (``cache['k'][0]``), without touching their values."""
    leaves = {}
    for name, value in _named(function, args, kwargs):
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            leaves[name + jax.tree_util.keystr(path)] = _leaf(leaf)
    return leaves


def _named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Pair arguments with the parameter names of ``function``; ``args[i]`` where it does not tell them."""
    try:
        parameters = inspect.signature(function).parameters
        bound = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [(f"args[{index}]", value) for index, value in enumerate(args)] + list(kwargs.items())
    named = []
    for name, value in bound.items():
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named += list(value.items())
        else:
            named.append((name, value))
    return named


def _leaf(value: Any) -> Leaf:
    if isinstance(value, bool | int | float | complex):
        kind = np.result_type(type(value))
        short = "bool" if isinstance(value, bool) else f"{_SHORT_KINDS[kind.kind]}32"
        return Leaf(shape="[]", dtype=short, weak_type=not isinstance(value, bool), static=repr(value))
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return Leaf(static=f"{type(value).__name__} {value!r}"[:80])
    return Leaf(
        shape=f"[{','.join(map(str, value.shape))}]",
        dtype=short_dtype(value.dtype),
        weak_type=bool(getattr(value, "weak_type", False)),
        sharding=_sharding(value),
    )


def _sharding(value: Any) -> str:
    """Write where an array lies. Committed or not is part of it: JAX compiles again when that changes."""
    sharding = getattr(value, "sharding", None)
    if sharding is None:
        return ""
    committed = "" if getattr(value, "committed", True) else ", uncommitted"
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        return f"{next(iter(sharding.device_set))}{committed}"
    spec = getattr(sharding, "spec", None)
    return f"{spec if spec is not None else sharding}{committed}"


def short_dtype(dtype: Any) -> str:
    """Write a dtype as HLO does: ``f32``, ``bf16``, ``i32``."""
    name = str(dtype)
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if name.startswith(long):
            return name.replace(long, short, 1)
    return name


def differences(before: Signature, now: Signature) -> tuple[CompileCause, ...]:
    """Return one cause for each thing that differs between two calls; empty for two equal ones.

    A value counts only where nothing else differs: JAX compiles for another one if the argument is static.
    """
    causes: list[CompileCause] = []
    for path in dict.fromkeys((*before, *now)):
        causes += _compare(path, before.get(path), now.get(path))
    return tuple(cause for cause in causes if cause.what != "static") or tuple(causes)


def _compare(path: str, before: Leaf | None, now: Leaf | None) -> list[CompileCause]:
    if before == now:
        return []
    if before is None or now is None:
        return [_cause(path, "structure", _text(before), _text(now))]
    causes = []
    if before.static and now.static:
        causes.append(_cause(path, "static", before.static, now.static))
    if before.shape != now.shape:
        causes.append(_cause(path, "shape", before.dtype + before.shape, now.dtype + now.shape))
    if before.dtype != now.dtype:
        causes.append(_cause(path, "dtype", before.dtype, now.dtype))
    if before.weak_type != now.weak_type:
        causes.append(_cause(path, "weak_type", str(before.weak_type), str(now.weak_type)))
    if before.sharding and now.sharding and before.sharding != now.sharding:
        causes.append(_cause(path, "sharding", before.sharding, now.sharding))
    return causes


def _text(leaf: Leaf | None) -> str:
    if leaf is None:
        return "absent"
    return (leaf.dtype + leaf.shape) or leaf.static


def _cause(path: str, what: str, before: str, after: str) -> CompileCause:
    return CompileCause(argument=path, what=what, before=before, after=after)


class Ledger:
    """The distinct signatures with which one function was called, oldest first."""

    def __init__(self, function: Callable[..., Any], keep: int = 256) -> None:
        self._function = function
        self._keep = keep
        self._seen: dict[frozenset[tuple[str, Leaf]], Signature] = {}

    def enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[CompileCause, ...]:
        """Note a call; return how it differs from the most similar earlier one (empty: first call, or seen before)."""
        now = signature_of(self._function, args, kwargs)
        key = frozenset(now.items())
        if key in self._seen:
            return ()
        ways = [differences(earlier, now) for earlier in reversed(self._seen.values())]
        self._seen[key] = now
        if len(self._seen) > self._keep:
            del self._seen[next(iter(self._seen))]
        return min(ways, key=len, default=())
