"""The least time that a program can take by published peaks: arithmetic, memory and exchanges, each alone."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.program.costs import INT8
from qwenperf.schema.analysis import Collective, ProgramAnalysis, TargetRecord

_EXCHANGED = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0}
"""Times that the bytes of a result pass a device's links, for many devices in a ring."""
_PERMUTE = "collective-permute"
"""Sends the whole of what it has from one device to another: none of it is there already."""
DTYPES = {"bfloat16": "bf16", "float16": "bf16", "float32": "bf16", "f32": "bf16", "f16": "bf16", "s8": "int8"}
"""Matrix units compute what is no integer in bf16 unless asked for more."""

INT8_PEAK = "int8"


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """What one device does at best, a second; ``links_per_s`` is the sum of both directions.

    ``int8_per_s`` is for products of whole numbers of 8 bits; ``None`` where nobody publishes it.
    """

    flops_per_s: float
    int8_per_s: float | None
    bytes_per_s: float
    links_per_s: float | None
    clock_hz: float | None


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one call asks of one device, and the time that each part takes at best."""

    compute_s: float
    memory_s: float
    links_s: float

    @property
    def seconds(self) -> float:
        """The longest of the three: all that can overlap does."""
        return max(self.compute_s, self.memory_s, self.links_s)

    @property
    def bound(self) -> str:
        """What takes longest: memory, compute or interconnect."""
        parts = {"memory": self.memory_s, "compute": self.compute_s, "interconnect": self.links_s}
        return max(parts, key=lambda name: parts[name])


def peaks_of(target: TargetRecord, dtype: str) -> Peaks | None:
    """Return the peaks of a target for matrices in ``dtype``; ``None`` where none are published for it."""
    flops = target.flops_per_s.get(DTYPES.get(dtype, dtype))
    if not flops or not target.hbm_bytes_per_s:
        return None
    clock = target.extra.get("clock_hz")
    return Peaks(
        flops_per_s=flops,
        int8_per_s=target.flops_per_s.get(INT8_PEAK),
        bytes_per_s=target.hbm_bytes_per_s,
        links_per_s=target.interconnect_bytes_per_s,
        clock_hz=float(clock) if isinstance(clock, int | float) and clock > 0 else None,
    )


def arithmetic_s(analysis: ProgramAnalysis, peaks: Peaks, flops: float) -> float:
    """Return the least time of ``flops`` of which as many are of int8 as of the program's own.

    Those take no time where no peak for them is known: whatever else was taken might be more than they need.
    """
    int8 = flops * min(1.0, float(analysis.extra.get(INT8, 0.0)) / analysis.flops) if analysis.flops else 0.0
    return (flops - int8) / peaks.flops_per_s + (int8 / peaks.int8_per_s if peaks.int8_per_s else 0.0)


def demand_of(analysis: ProgramAnalysis, peaks: Peaks, flops: float, moved: float, *, scale: float = 1.0) -> Demand:
    """Return the least times of ``flops`` and ``moved`` bytes, and of a program's exchanges ``scale`` times over."""
    exchanged = sum(map(exchanged_bytes, analysis.collectives)) * scale
    return Demand(
        compute_s=arithmetic_s(analysis, peaks, flops),
        memory_s=moved / peaks.bytes_per_s,
        # Published link speeds are the sum of both directions, and one exchange uses one.
        links_s=exchanged / (peaks.links_per_s / 2) if peaks.links_per_s and exchanged else 0.0,
    )


def exchanged_bytes(one: Collective) -> float:
    """Return the bytes that one device sends in all runs of an exchange: a ring's share of the result."""
    group = one.extra.get("group")
    share = (group - 1) / group if isinstance(group, int) and group > 1 and one.kind != _PERMUTE else 1.0
    if one.kind == "reduce-scatter":
        # Its result is one device's part: the whole is as many times as large.
        share *= group if isinstance(group, int) else 1
    return one.bytes * one.runs * _EXCHANGED.get(one.kind, 1.0) * share
