"""How long a program would take at best, from its facts and published peaks: an *estimate*, never a measurement.

A call takes no less than its arithmetic at the chip's peak, its bytes at the memory's, its exchanges at the links'. The
largest of the three is the roofline; where the compiler's own figure is longer and can be true, that is the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qwenperf.program.analysis import is_plausible
from qwenperf.program.costs import INT8
from qwenperf.program.fit import times_held, usable_bytes
from qwenperf.program.roofline import DTYPES, INT8_PEAK, Demand, Peaks, arithmetic_s, demand_of, peaks_of
from qwenperf.schema.analysis import Estimate, OperationCost, ProgramAnalysis, SweepPoint, TargetRecord
from qwenperf.schema.records import Json

SWEEP = tuple(2**power for power in range(12))
"""Batch sizes of the sweep: 1 to 2048."""

UTILISATIONS = (0.6, 0.8)
"""Shares of the peak for which the batch that reaches them is told."""

_MOST_TIMES = 1000.0
"""A compiler's time over the roofline beyond which it is taken for a mistake."""


def estimate(
    analysis: ProgramAnalysis,
    target: TargetRecord,
    *,
    tokens_per_call: float,
    batch: int,
    weight_bytes: int,
    cache_bytes: int,
    dtype: str = "bf16",
    sweep: Sequence[int] = SWEEP,
) -> Estimate:
    """Estimate the time of one call of a program on a target, and how it changes with the batch.

    Args:
        analysis: The program's facts, of one device.
        target: Published peaks of one device; ``extra["clock_hz"]`` turns the compiler's cycles into seconds.
        tokens_per_call: Tokens that one call makes or reads, of all rows and devices: ``batch`` for a decode step,
            batch times prompt for a prefill, batch times tokens for a loop.
        batch: Rows that the program was compiled for.
        weight_bytes: Bytes of weights on one device. Those that the analysis says nothing reads do not count.
        cache_bytes: Bytes of the cache on one device, for all rows of ``batch``.
        dtype: What matrices are multiplied in; decides on the peak.
        sweep: Batch sizes to estimate, beside the one from which arithmetic bounds; none for no sweep.

    Returns:
        The estimate; without seconds where the target has no published peaks. ``extra`` has ``compute_s``,
        ``memory_s``, ``interconnect_s``, ``batch_at_mfu`` (the batch that reaches a share of peak arithmetic) and
        ``mfu_limit`` (what no batch passes, because every row reads its own cache). The sweep is the roofline alone.
    """
    peaks = peaks_of(target, dtype)
    if peaks is None or analysis.flops is None or analysis.hbm_bytes is None:
        missing = f"published peaks of {target.name} for {dtype}" if peaks is None else "counts of the program"
        return Estimate(assumptions=(f"no estimate: {missing} are not known",))
    demand = demand_of(analysis, peaks, analysis.flops, analysis.hbm_bytes)
    compiler_s = compiler_seconds(analysis, target, demand.seconds)
    seconds = max(demand.seconds, compiler_s or 0.0)
    if not seconds:
        return Estimate(assumptions=("no estimate: the program does nothing that takes time",))
    shape = _Shape(
        analysis=analysis,
        batch=max(1, batch),
        weight_bytes=max(0, weight_bytes - int(analysis.extra.get("unread_weight_bytes", 0))),
        cache_bytes=cache_bytes,
        passes=max(1, round(float(analysis.extra.get("weight_passes", 1.0)))),
    )
    limit = _limit(shape, peaks)
    return Estimate(
        seconds=seconds,
        roofline_s=demand.seconds,
        compiler_s=compiler_s,
        bound=demand.bound,
        tokens_per_s=tokens_per_call / seconds,
        mfu=demand.compute_s / seconds,
        mbu=shape.needed_bytes(shape.batch) / seconds / peaks.bytes_per_s,
        sweep=tuple(_point(shape, target, peaks, rows, tokens_per_call) for rows in _batches(sweep, limit)),
        compute_bound_batch=limit,
        assumptions=(*_assumptions(analysis, target, dtype, compiler_s), *_never_bound(limit, shape, peaks)),
        extra=_details(shape, peaks, demand),
    )


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """A program and how its demands change with the rows: weights are read once a step, all else for each row.

    ``passes`` is how many steps one call makes: a loop over tokens reads weights and cache in each of them.
    """

    analysis: ProgramAnalysis
    batch: int
    weight_bytes: int
    cache_bytes: int
    passes: int

    def needed_bytes(self, rows: int) -> float:
        """Return the bytes of weights and cache that a call for so many rows has to read."""
        return self.passes * (self.weight_bytes + self.cache_bytes * rows / self.batch)

    @property
    def flops_per_row(self) -> float:
        return (self.analysis.flops or 0.0) / self.batch

    def compute_per_row(self, peaks: Peaks) -> float:
        """Return the seconds of one row's arithmetic."""
        return arithmetic_s(self.analysis, peaks, self.flops_per_row)

    @property
    def fixed_bytes(self) -> float:
        return min(float(self.passes * self.weight_bytes), self.analysis.hbm_bytes or 0.0)

    @property
    def bytes_per_row(self) -> float:
        return ((self.analysis.hbm_bytes or 0.0) - self.fixed_bytes) / self.batch


def _point(shape: _Shape, target: TargetRecord, peaks: Peaks, rows: int, tokens_per_call: float) -> SweepPoint:
    flops = shape.flops_per_row * rows
    demand = demand_of(
        shape.analysis, peaks, flops, shape.fixed_bytes + shape.bytes_per_row * rows, scale=rows / shape.batch
    )
    seconds = demand.seconds or math.inf
    held = shape.cache_bytes * times_held(shape.analysis, shape.cache_bytes) * (rows / shape.batch - 1)
    peak, memory = shape.analysis.peak_bytes, usable_bytes(target)
    return SweepPoint(
        batch=rows,
        seconds=demand.seconds,
        tokens_per_s=tokens_per_call * rows / shape.batch / seconds,
        mfu=demand.compute_s / seconds,
        mbu=shape.needed_bytes(rows) / seconds / peaks.bytes_per_s,
        bound=demand.bound,
        fits=None if peak is None or memory is None else peak + held <= memory,
    )


def _batches(sweep: Sequence[int], limit: int | None) -> tuple[int, ...]:
    """Return the batch sizes of a sweep, the one from which arithmetic bounds among them, wherever it is."""
    return tuple(sorted({*sweep, limit})) if sweep and limit is not None else tuple(sweep)


def _limit(shape: _Shape, peaks: Peaks, share: float = 1.0) -> int | None:
    """Return the smallest batch at which arithmetic takes at least ``share`` of the time; ``None`` where none does.

    With W bytes of weights, F operations and C bytes a row, peaks P and B: b F / P >= share (W + b C) / B.
    """
    compute, memory = shape.compute_per_row(peaks), shape.bytes_per_row / peaks.bytes_per_s
    gained = compute - share * memory
    if gained <= 0:
        return None
    return max(1, math.ceil(share * shape.fixed_bytes / peaks.bytes_per_s / gained))


def _mfu_limit(shape: _Shape, peaks: Peaks) -> float:
    """Return the share of peak arithmetic that a batch without end would reach."""
    compute, memory = shape.compute_per_row(peaks), shape.bytes_per_row / peaks.bytes_per_s
    return compute / max(compute, memory) if compute else 0.0


def compiler_seconds(analysis: ProgramAnalysis, target: TargetRecord, roofline_s: float) -> float | None:
    """Return the compiler's own estimate of one call in seconds, ``None`` where it has none that can be true.

    Cycles of all instructions by the chip's clock; else the compiler's figure for the whole program. A time far beyond
    the roofline is no estimate.
    """
    clock = target.extra.get("clock_hz")
    told = analysis.extra.get("compiler_seconds")
    seconds = None
    if analysis.estimated_cycles and isinstance(clock, int | float) and clock > 0:
        seconds = analysis.estimated_cycles / clock
    elif is_plausible(told) and isinstance(told, int | float):
        seconds = float(told)
    return seconds if seconds and seconds < max(roofline_s * _MOST_TIMES, 1.0) else None


def timed(analysis: ProgramAnalysis, target: TargetRecord, *, dtype: str = "bf16") -> ProgramAnalysis:
    """Return the analysis with an estimate of ``seconds`` for each of its operations, costliest first."""
    peaks = peaks_of(target, dtype)
    if peaks is None:
        return analysis
    filled = [replace(one, seconds=_operation_seconds(one, peaks)) for one in analysis.operations]
    return replace(analysis, operations=tuple(sorted(filled, key=lambda one: (-(one.seconds or 0.0), one.name))))


def _operation_seconds(one: OperationCost, peaks: Peaks) -> float:
    cycles = one.cycles / peaks.clock_hz if one.cycles and peaks.clock_hz else 0.0
    int8 = float(one.extra.get(INT8, 0.0))
    compute = (one.flops - int8) / peaks.flops_per_s + (int8 / peaks.int8_per_s if peaks.int8_per_s else 0.0)
    return max(compute, one.bytes / peaks.bytes_per_s, cycles)


def _details(shape: _Shape, peaks: Peaks, demand: Demand) -> Json:
    return {
        "compute_s": demand.compute_s,
        "memory_s": demand.memory_s,
        "interconnect_s": demand.links_s,
        "batch_at_mfu": {f"{share:g}": _limit(shape, peaks, share) for share in UTILISATIONS},
        "mfu_limit": _mfu_limit(shape, peaks),
    }


def _assumptions(
    analysis: ProgramAnalysis, target: TargetRecord, dtype: str, compiler_s: float | None
) -> tuple[str, ...]:
    told = [
        f"peaks of {target.name} as published, for {DTYPES.get(dtype, dtype)}; no program reaches them",
        "arithmetic, memory and exchanges overlap perfectly; the host adds nothing",
        "over the batch, weights are read once a step and everything else grows with the rows",
    ]
    if analysis.extra.get(INT8):
        told.append(_of_int8(target))
    if analysis.unknown_loops:
        told.append(
            f"{len(analysis.unknown_loops)} loops of unknown length are counted once: {analysis.unknown_loops[0]}"
        )
    conditionals = analysis.extra.get("conditionals")
    if conditionals:
        told.append(f"the branch that costs most counts of each of {conditionals} conditionals")
    if analysis.kernels:
        told.append(
            "kernels without a cost of their author's count with the bytes of their arguments and no arithmetic"
        )
    missing = analysis.extra.get("operations_without_cycles")
    if compiler_s is not None and missing:
        told.append(f"the compiler's time leaves out {missing} instructions without an estimate")
    if analysis.collectives and not target.interconnect_bytes_per_s:
        told.append(f"exchanges take no time: the speed of {target.name}'s links is unknown (not published)")
    return tuple(told)


def _of_int8(target: TargetRecord) -> str:
    """Say which peak products of int8 were reckoned with."""
    if target.flops_per_s.get(INT8_PEAK):
        return f"products of int8 with the peak of {target.name} for int8"
    return f"products of int8 take no time: no peak of {target.name} for int8 is published"


def _never_bound(limit: int | None, shape: _Shape, peaks: Peaks) -> tuple[str, ...]:
    """Say why no batch is bound by arithmetic, where none is."""
    if limit is not None:
        return ()
    share = f"{100 * _mfu_limit(shape, peaks):.0f}%"
    return (f"no batch is bound by arithmetic: what each row reads takes longer; MFU stays below {share}",)
