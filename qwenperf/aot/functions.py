"""Anybody's jitted function, compiled for targets that need not be there: a decode step, a training step, a kernel."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from qwenperf.adapters.programs import unwrap
from qwenperf.aot.asked import check_counts, check_mesh, check_partial, check_targets
from qwenperf.aot.compile import Lowered, Work, compile_lowered, lower
from qwenperf.aot.ids import program_id
from qwenperf.aot.platforms import missing_compiler
from qwenperf.aot.sharding import make_mesh
from qwenperf.aot.topology import Target, described, devices, resolve_all
from qwenperf.errors import EnvironmentUnfitError, NothingMeasuredError, UsageError
from qwenperf.measure import environment
from qwenperf.measure.default_platform import default_platform
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.records import Status

Specs = Any
"""A tuple with, for each argument, a ``PartitionSpec`` for all of it, or a tree of them."""


def compile_for(
    function: Callable[..., Any],
    *args: Any,
    targets: str | Sequence[str] = "v5e-1",
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    mesh: Mapping[str, int] | None = None,
    specs: Specs = None,
    tokens_per_call: int = 0,
    batch: int = 1,
    name: str = "",
) -> AotRecord:
    """Compile ``function`` for each target, in this process, and return what the compiler made; nothing runs.

    Args:
      function: a jitted function, or any that can be; a ``functools.partial`` or a method of one as well.
      *args: its arguments as shapes (``jax.ShapeDtypeStruct``), or arrays; other values as they are.
      targets: names such as ``v5e-1,v7x-4``, see ``qwenperf aot --list-targets``.
      donate_argnums: which arguments the function may write over, where it is not jitted yet.
      static_argnums: which are constants of the program, where it is not jitted yet.
      mesh: axes and their sizes, whose product is the number of devices of every target.
      specs: how each argument is divided over the mesh; without it every device has all of it.
      tokens_per_call: what one call makes or reads, of ``batch`` rows: for an estimate of tokens/s, which takes what is
        donated for the cache and all else for weights.
      batch: see ``tokens_per_call``.
      name: what the record calls the function.

    Raises:
      UsageError: an unknown target, no function, a mesh of another number of devices, or what is no number.
      EnvironmentUnfitError: none of the targets has a compiler here; says which extra has it.
      Exception: whatever tracing the function raises.
    """
    check_targets(targets)
    check_counts(tokens_per_call=(tokens_per_call, 0), batch=(batch, 1))
    check_mesh(mesh)
    found = resolve_all(targets if isinstance(targets, str) else ",".join(targets))
    jitted, given = _jitted(function, args, donate_argnums, static_argnums)
    called = name or getattr(jitted, "__name__", "") or type(function).__name__
    missing = [missing_compiler(target.platform) for target in found]
    if all(missing):
        raise EnvironmentUnfitError(". ".join(dict.fromkeys(missing)) + ".")
    _start_on_the_cpu()
    work = Work(tokens_per_call=tokens_per_call, batch=batch)
    bound = len(given) - len(args)
    asked = functools.partial(_case, jitted, given, called, mesh=mesh, specs=specs, bound=bound, work=work)
    cases = tuple(asked(target, why) for target, why in zip(found, missing, strict=True))
    now = datetime.now(UTC)
    return AotRecord(
        id=f"{now:%Y%m%dT%H%M%SZ}-{called}",
        created_at=now.isoformat(timespec="seconds"),
        environment=environment.describe(),
        declared=tuple(case.id for case in cases),
        cases=cases,
    )


def _jitted(
    function: Any,
    args: tuple[Any, ...],
    donate_argnums: int | Sequence[int] | None,
    static_argnums: int | Sequence[int] | None,
) -> tuple[Any, tuple[Any, ...]]:
    """Return a jitted function and all its arguments, those of partials in front.

    Raises:
      UsageError: no function, donations of one that is jitted, or shapes in a partial of one that is not.
    """
    inner, given = unwrap(function, args)
    if not callable(inner):
        raise UsageError(f"{inner!r} is no function.", advice="Give the function first, then its arguments.")
    if not hasattr(inner, "trace"):
        check_partial(function)
        return jax.jit(function, donate_argnums=donate_argnums, static_argnums=static_argnums), args
    told = [
        key
        for key, value in (("donate_argnums", donate_argnums), ("static_argnums", static_argnums))
        if value is not None
    ]
    if told:
        raise UsageError(f"{told[0]} is given, and the function is jitted already.", advice="Say it to jax.jit.")
    return inner, given


def _case(
    jitted: Any,
    args: tuple[Any, ...],
    name: str,
    target: Target,
    missing: str,
    *,
    mesh: Mapping[str, int] | None,
    specs: Specs,
    bound: int,
    work: Work,
) -> AotCase:
    case_id = program_id(name, target.name, name)
    spec = {"function": name}
    if missing:
        error = NothingMeasuredError(f"{missing}.")
        extra = {"error_kind": type(error).__name__, "exit_code": error.exit_code}
        record = described(target)
        return AotCase(id=case_id, target=record, spec=spec, status=Status.MISSING, error=str(error), extra=extra)
    placed = place(args, devices(target), mesh=mesh, specs=specs, bound=bound)
    program = lower(jitted, placed, target, case_id=case_id, name=name, spec=spec, mesh=mesh)
    if not isinstance(program, Lowered):
        return program
    return compile_lowered(replace(program, work=with_sizes(work, program)))


def with_sizes(work: Work, program: Lowered) -> Work:
    """Return ``work`` with the bytes that an estimate of tokens/s needs."""
    if not work.tokens_per_call:
        return work
    told = program.case.arguments
    cache, weights = (sum(one.bytes for one in told if one.donated is donated) for donated in (True, False))
    return replace(work, cache_bytes=cache, weight_bytes=weights)


def place(
    args: tuple[Any, ...], found: tuple[Any, ...], *, mesh: Mapping[str, int] | None, specs: Specs, bound: int = 0
) -> tuple[Any, ...]:
    """Return the arguments as shapes that lie on devices; the first ``bound`` ones have no specs and lie on all.

    Raises:
      UsageError: a mesh of another number of devices, specs without one, or another number of them than arguments.
    """
    if specs is not None and (mesh is None or not isinstance(specs, tuple) or len(specs) != len(args) - bound):
        raise UsageError(
            "specs needs a mesh, and as many entries as there are arguments.",
            advice="Write mesh={'data': 2, 'tensor': 2}, specs=(P('tensor'), P()).",
        )
    if mesh is not None and math.prod(mesh.values()) != len(found):
        raise UsageError(f"mesh {dict(mesh)} has {math.prod(mesh.values())} devices, and the target {len(found)}.")
    if len(found) == 1 and mesh is None:
        return tuple(jax.tree.map(functools.partial(_placed, sharding=SingleDeviceSharding(found[0])), args))
    grid = make_mesh(found, tuple((mesh or {"devices": len(found)}).items()))
    spread = (*([PartitionSpec()] * bound), *(specs if specs is not None else [PartitionSpec()] * (len(args) - bound)))
    return tuple(_spread(arg, spec, grid) for arg, spec in zip(args, spread, strict=True))


def _spread(arg: Any, spec: Any, grid: Any) -> Any:
    """Place one argument: ``spec`` is for all of it, or a tree that the argument's begins with."""

    def under(one: PartitionSpec, part: Any) -> Any:
        return jax.tree.map(functools.partial(_placed, sharding=NamedSharding(grid, one)), part)

    return jax.tree.map(under, spec, arg, is_leaf=lambda node: isinstance(node, PartitionSpec))


def _placed(leaf: Any, sharding: Any) -> Any:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    return jax.ShapeDtypeStruct(
        leaf.shape, leaf.dtype, sharding=sharding, weak_type=bool(getattr(leaf, "weak_type", False))
    )


def _start_on_the_cpu() -> None:
    """Keep JAX from looking for a TPU that is not there, where nobody has chosen and nothing runs yet."""
    if default_platform(os.environ) and not jax.config.jax_platforms:  # type: ignore[attr-defined]
        with suppress(RuntimeError):  # it runs already, on what it found
            jax.config.update("jax_platforms", "cpu")
