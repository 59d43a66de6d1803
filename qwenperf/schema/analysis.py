"""Frozen records of what a compiler made of a program, which ``aot.json`` holds: one case a program and target.

Whatever depends on a model of the chip is an *estimate* and is named so; the rest is read from the compiled program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenperf.schema.records import Finding, Json, Status, Verdict

AOT_SCHEMA = "qwenperf.aot.v1"


@dataclass(frozen=True, kw_only=True)
class TargetRecord:
    """What a program was compiled for. ``name`` is canonical (``v7x-4``); ``topology`` the compiler's own name.

    ``chips`` times ``devices_per_chip`` devices; bytes, bytes/s and flop/s are those of one *device*, published peaks.
    """

    name: str
    platform: str
    topology: str = ""
    generation: str = ""
    chips: int = 1
    devices: int = 1
    hbm_bytes: int | None = None
    hbm_bytes_per_s: float | None = None
    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    interconnect_bytes_per_s: float | None = None
    mesh: Mapping[str, int] = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One array that a program is called with. ``path`` is its key path (``params.layers.w_gate_up``).

    ``shape`` has no layout (``bf16[24,896,9728]``); shape and ``bytes`` are those of one *device*'s part of it.
    """

    path: str
    shape: str
    bytes: int
    donated: bool = False
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OperationCost:
    """One instruction that a device runs. Costs are of all its ``runs`` in one call of the program, loops included.

    ``category``: what it is for, in the words of traces (matmul, attention, norm, cache update, ...), and prefetch and
    kernel.
    ``cycles`` and ``seconds`` are the compiler's or the roofline's estimate, ``None`` where there is none.
    """

    name: str
    opcode: str
    category: str
    shape: str
    source: str = ""
    op_name: str = ""
    computation: str = ""
    runs: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    cycles: float | None = None
    seconds: float | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BufferCopy:
    """One copy of a buffer. ``kind``: copy, relayout, upcast, slice (of weights, into a buffer) or broadcast.

    ``buffer`` is the key path of the argument that the bytes come from (``params.layers.w_gate_up``), empty where they
    come from none. ``before`` and ``after`` are shapes with layouts; ``bytes`` is what one run writes.
    """

    kind: str
    shape: str
    bytes: int
    buffer: str = ""
    runs: int = 1
    before: str = ""
    after: str = ""
    source: str = ""
    operation: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One exchange between devices. ``kind``: all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute.

    ``bytes`` is the result of one run on one device; ``per_layer`` is true inside the loop over the layers.
    """

    kind: str
    shape: str
    bytes: int
    runs: int = 1
    per_layer: bool = False
    source: str = ""
    operation: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProgramAnalysis:
    """Facts about one compiled program on one device, loop bodies counted as often as they run.

    ``operations`` are the costliest; ``unknown_loops`` are loops whose trip count the text does not tell, counted
    once. ``unstable`` names fields that differ between two compilations of one program and are left out of gates.
    """

    name: str
    fingerprint: str = ""
    flops: float | None = None
    hbm_bytes: float | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None
    alias_bytes: int | None = None
    peak_bytes: int | None = None
    estimated_cycles: float | None = None
    operations: tuple[OperationCost, ...] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)
    fusions: int = 0
    copies: tuple[BufferCopy, ...] = ()
    collectives: tuple[Collective, ...] = ()
    kernels: tuple[str, ...] = ()
    unaliased_donations: tuple[str, ...] = ()
    trigonometric: tuple[str, ...] = ()
    double_precision: tuple[str, ...] = ()
    host_calls: tuple[str, ...] = ()
    unknown_loops: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """The estimate at one batch size. ``bound``: memory, compute or interconnect."""

    batch: int
    seconds: float
    tokens_per_s: float
    mfu: float
    mbu: float
    bound: str
    fits: bool | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An *estimate* from the program's facts and published peaks; never measured. Seconds are of one call."""

    seconds: float | None = None
    roofline_s: float | None = None
    compiler_s: float | None = None
    bound: str = ""
    tokens_per_s: float | None = None
    mfu: float | None = None
    mbu: float | None = None
    sweep: tuple[SweepPoint, ...] = ()
    compute_bound_batch: int | None = None
    assumptions: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Whether a program fits one device's memory, and how far it could grow; ``None`` where it is not known."""

    peak_bytes: int
    hbm_bytes: int
    fits: bool
    longest_context: int | None = None
    largest_batch: int | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AotCase:
    """One program compiled for one target. ``id``: ``<case>@<target>/<program>``; ``error`` says why there is none.

    ``arguments`` are known before anything compiles, so that a program that does not fit still names them. ``status``
    is ``failed`` where the compiler refuses the program or crashes (``extra.crashed``), ``missing`` where there is no
    such compiler here.
    """

    id: str
    target: TargetRecord
    spec: Json = field(default_factory=dict)
    status: Status = Status.MEASURED
    arguments: tuple[Argument, ...] = ()
    program: ProgramAnalysis | None = None
    estimate: Estimate | None = None
    fit: Fit | None = None
    compile_s: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AotRecord:
    """Programs compiled for targets that need not be there. ``declared``: every case id that was asked for."""

    id: str
    created_at: str
    environment: Json
    schema: str = AOT_SCHEMA
    commit: Json = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    cases: tuple[AotCase, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    extra: Json = field(default_factory=dict)
