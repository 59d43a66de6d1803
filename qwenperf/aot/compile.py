"""One jitted function and one target: lowered, compiled and analysed in this process. What goes wrong is the record's.

A function that cannot be traced is its author's to mend, and raises as it does in JAX. A program that the compiler of a
target refuses (no memory, a kernel's block that the chip has not) is an answer, and becomes a failed case.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax

from qwenperf.adapters.programs import ArgumentArray, arguments, hlo_shape
from qwenperf.aot.topology import Target, target_record
from qwenperf.measure import memory
from qwenperf.program import analysis, estimate, fit
from qwenperf.program.buffers import dotted
from qwenperf.schema.analysis import AotCase, Argument, Estimate, Fit, ProgramAnalysis, TargetRecord
from qwenperf.schema.records import Finding, Status

_MOST_TEXT = 6_000
"""Characters of a compiler's message that are kept: it lists allocations, largest first."""

_NEW_STATE = "Some donated buffers were not usable"
_OUT_OF_MEMORY = re.compile(r"(?:Used |\()(?P<used>[\d.]+)(?P<unit>[KMGT])(?: of [\d.]+[KMGT] hbm|\) exceeds)")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, kw_only=True)
class Work:
    """What estimates need to know of a program beside itself; nothing is known of a function of somebody's own.

    ``weight_bytes`` and ``cache_bytes`` are those of one device. ``context`` is how many positions the cache has,
    ``dtype`` what matrices are multiplied in. ``layers`` is how many the model has, 0 where it is not known.
    """

    dtype: str = "bf16"
    tokens_per_call: int = 0
    batch: int = 1
    context: int = 0
    weight_bytes: int = 0
    cache_bytes: int = 0
    layers: int = 0


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A function lowered for a target; ``case`` says all that is known before it is compiled."""

    case: AotCase
    name: str
    lowered: jax.stages.Lowered
    arrays: Sequence[ArgumentArray]
    work: Work = field(default_factory=Work)

    @property
    def text(self) -> str:
        """What is given to the compiler, without the lines that it came from."""
        return str(self.lowered.as_text())


def lower(
    jitted: Any,
    args: tuple[Any, ...],
    target: Target,
    *,
    case_id: str,
    name: str,
    spec: Mapping[str, Any] | None = None,
    mesh: Mapping[str, int] | None = None,
    work: Work | None = None,
    findings: tuple[Finding, ...] = (),
) -> Lowered | AotCase:
    """Return ``jitted`` lowered for ``args``, shapes that say on which of the target's devices they lie.

    What cannot be lowered for this target, such as a kernel, is a failed case.

    Raises:
      EnvironmentUnfitError: there is no compiler for the target here.
      Exception: whatever tracing the function raises.
    """
    record = replace(target_record(target), mesh=mesh or {})
    case = AotCase(id=case_id, target=record, spec=spec or {}, findings=findings)
    with _quiet():
        traced = jitted.trace(*args)
        try:
            lowered = traced.lower()
        except Exception as error:  # noqa: BLE001  (what a lowering rule raises has no class of its own)
            return refused(case, error, phase="lowering")
    arrays = arguments(jitted, args, lowered)
    told = sorted(map(_argument, arrays), key=lambda one: -one.bytes)
    case = replace(case, arguments=tuple(told))
    return Lowered(case=case, name=name, lowered=lowered, arrays=arrays, work=work or Work())


def compile_lowered(program: Lowered) -> AotCase:
    """Return the record of a program: compiled and analysed, or why the compiler refuses it."""
    start = time.perf_counter()
    try:
        with _quiet():
            compiled = program.lowered.compile()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError, NotImplementedError) as error:
        return refused(program.case, error, phase="compiling", work=program.work)
    seconds = time.perf_counter() - start
    donated = [one for one in program.arrays if one.donated]
    facts = analysis.analyse(
        program.name,
        compiled.as_text() or "",
        sizes=memory.sizes(compiled),
        cost=memory.cost(compiled),
        donated=[dotted(one.path) for one in donated],
        donated_bytes=sum(part_bytes(one) for one in donated),
    )
    lost = tuple(_dotted_first(name) for name in facts.unaliased_donations)
    facts = replace(facts, unaliased_donations=lost)
    return replace(analysed(program.case, facts, program.work), compile_s=seconds)


def analysed(case: AotCase, facts: ProgramAnalysis, work: Work) -> AotCase:
    """Return ``case`` with the facts of its program and the estimates that follow from them."""
    facts = estimate.timed(facts, case.target, dtype=work.dtype)
    if work.layers:
        facts = replace(facts, extra={**facts.extra, "layers": work.layers})
    room = fit.fit(facts, case.target, cache_bytes=work.cache_bytes, batch=work.batch, context=work.context)
    return replace(case, program=facts, estimate=_estimate(facts, case.target, work), fit=room)


def refused(case: AotCase, error: BaseException, *, phase: str, work: Work | None = None) -> AotCase:
    """Return ``case`` with the compiler's message; one that says how much memory is missing gives a ``fit``."""
    told = f"{type(error).__name__}: {error}" if not str(error).startswith(type(error).__name__) else str(error)
    extra = {**case.extra, "phase": phase}
    room = _too_large(told, case, work or Work())
    return replace(case, status=Status.FAILED, error=told[:_MOST_TEXT], fit=room, extra=extra)


def part_shape(array: ArgumentArray) -> tuple[int, ...]:
    """Return the shape of the part of an argument that one device has."""
    shape = tuple(array.info.shape)
    sharding = getattr(array.given, "sharding", None)
    return shape if sharding is None else tuple(sharding.shard_shape(shape))


def part_bytes(array: ArgumentArray) -> int:
    """Return the bytes of it."""
    return int(math.prod(part_shape(array)) * array.info.dtype.itemsize)


def _argument(array: ArgumentArray) -> Argument:
    shape = jax.ShapeDtypeStruct(part_shape(array), array.info.dtype)
    return Argument(path=dotted(array.path), shape=hlo_shape(shape), bytes=part_bytes(array), donated=array.donated)


def _dotted_first(name: str) -> str:
    """Write the path before a shape, ``cache['k'][0] bf16[8,4]``, as arguments are written."""
    path, space, shape = name.partition(" ")
    return f"{dotted(path)}{space}{shape}"


def _estimate(facts: ProgramAnalysis, target: TargetRecord, work: Work) -> Estimate:
    """Estimate a program; of one whose tokens are not known, neither their speed nor what a batch would change."""
    asked = partial(
        estimate.estimate, facts, target, weight_bytes=work.weight_bytes, cache_bytes=work.cache_bytes, dtype=work.dtype
    )
    if work.tokens_per_call:
        return asked(tokens_per_call=work.tokens_per_call, batch=work.batch)
    found = asked(tokens_per_call=0, batch=1, sweep=())
    return replace(found, tokens_per_s=None, mbu=None, compute_bound_batch=None)


def _too_large(told: str, case: AotCase, work: Work) -> Fit | None:
    """Read how much memory a program wants from the compiler's refusal, and reckon what would fit."""
    match = _OUT_OF_MEMORY.search(told) if "hbm" in told.lower() else None
    if match is None:
        return None
    wanted = int(float(match["used"]) * _UNITS[match["unit"]])
    donated = sum(one.bytes for one in case.arguments if one.donated)
    return fit.refused(
        wanted,
        case.target,
        cache_bytes=work.cache_bytes,
        held=1 if donated >= work.cache_bytes else 2,
        batch=work.batch,
        context=work.context,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep JAX from warning of donations that were lost: the record says the same, with names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NEW_STATE)
        yield
