"""Frozen records of a run: what ``run.json`` holds, as types.

A record keeps keys that it does not know (``extra``), so that an older reader passes on what a newer
writer wrote. How records become JSON is ``codec``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from qwenperf.schema.metrics import Direction, Kind, lookup

SCHEMA = "qwenperf.run.v1"

Json = Mapping[str, Any]


class Outcome(StrEnum):
    """What a gate says; timed gates may be inconclusive."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Status(StrEnum):
    """How the measuring of a case ended."""

    MEASURED = "measured"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One measured quantity. ``samples`` are single readings; ``interval`` holds the true value with ``coverage``.

    Few readings have no 95% interval: the widest of 3 covers 75%, of 5 93.75%. ``coverage`` says which it is.
    """

    value: float
    unit: str
    direction: Direction
    kind: Kind
    samples: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None
    coverage: float | None = None
    extra: Json = field(default_factory=dict)


def metric(
    name: str,
    value: float,
    *,
    samples: tuple[float, ...] = (),
    interval: tuple[float, float] | None = None,
    coverage: float | None = None,
) -> Metric:
    """Make the metric ``name`` with unit, direction and kind from the registry.

    Raises:
      UnknownNameError: ``name`` is not in the registry.
    """
    definition = lookup(name)
    return Metric(
        value=float(value),
        unit=definition.unit,
        direction=definition.direction,
        kind=definition.kind,
        samples=samples,
        interval=interval,
        coverage=coverage,
    )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A typed remark: ``code`` is a stable name, ``data`` its values, ``advice`` what to do."""

    code: str
    severity: Severity
    message: str
    advice: str = ""
    data: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompileCause:
    """Which argument changed between two calls of one function. ``what``: shape, dtype, weak_type, sharding, new."""

    argument: str
    what: str
    before: str = ""
    after: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompileEvent:
    """One compile of one function. ``phase``: cold, warmup or steady; ``location``: the caller's ``file:line``."""

    function: str
    phase: str
    seconds: float
    cache_hit: bool = False
    refused: bool = False
    location: str = ""
    causes: tuple[CompileCause, ...] = ()
    explanation: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TokenEvidence:
    """Tokens of one request. ``generated``: [batch][new_tokens]; ``text`` is set where a tokenizer is known."""

    prompt: tuple[tuple[int, ...], ...]
    generated: tuple[tuple[int, ...], ...]
    text: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where tokens differ from uncached greedy decoding, and the largest teacher-forced logit error.

    ``position`` counts generated tokens from 0.
    Margins are ``logit(uncached's token) - logit(engine's token)``, in logit units, in each side's own logits;
    ``None`` where that side gives no logits. Logits that are not finite are told first, then a masked token (both in
    ``extra``), then the first difference beyond rounding; ``near_tie`` says that there is none of these, and that the
    first difference of all is told: every uncached margin is within ``tolerance``, the rounding of the dtype in logit
    units.
    """

    equal: bool
    reference: str
    row: int | None = None
    position: int | None = None
    expected_token: int | None = None
    actual_token: int | None = None
    reference_margin: float | None = None
    engine_margin: float | None = None
    near_tie: bool = False
    tolerance: float = 0.0
    max_logit_error: float | None = None
    logit_tolerance: float | None = None
    worst_step: int | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProgramFacts:
    """Facts about one compiled program, from its text and the compiler's numbers.

    ``cache_shapes`` are the HLO shapes of the cache's arrays, by which copies and lost donations of them are known.
    """

    name: str
    flops: float | None = None
    bytes_accessed: float | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None
    alias_bytes: int | None = None
    operations: Mapping[str, int] = field(default_factory=dict)
    trigonometric: tuple[str, ...] = ()
    unaliased_donations: tuple[str, ...] = ()
    cache_copies: tuple[str, ...] = ()
    cache_shapes: tuple[str, ...] = ()
    fingerprint: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """What this machine can do at best, measured on the spot; ``source`` says by which kernels and when."""

    bytes_per_s: float
    flops_per_s: float
    source: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamEvidence:
    """Time of each streamed decode step: step i writes ``positions[i]`` and takes ``step_s[trial][i]`` seconds."""

    positions: tuple[int, ...]
    step_s: tuple[tuple[float, ...], ...]
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a gate reads besides metrics; ``None`` where it was not collected.

    ``program`` is the decode step; ``programs`` are all that run once for each token or for a whole request: the step,
    the loop on the device, but not the prefill.
    """

    tokens: TokenEvidence | None = None
    divergence: Divergence | None = None
    compiles: tuple[CompileEvent, ...] = ()
    program: ProgramFacts | None = None
    programs: tuple[ProgramFacts, ...] = ()
    roofline: Roofline | None = None
    stream: StreamEvidence | None = None
    trace_summary: Json | None = None
    voids: tuple[str, ...] = ()
    load: Json | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one gate says about one case. ``summary`` is one line, ``detail`` the lines below it."""

    gate: str
    outcome: Outcome
    summary: str
    detail: tuple[str, ...] = ()
    advice: str = ""
    data: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CaseRecord:
    """Everything measured of one case. ``spec`` is the case as data; ``trace`` a path relative to the run folder."""

    id: str
    spec: Json
    status: Status = Status.MEASURED
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    verdicts: tuple[Verdict, ...] = ()
    trace: str | None = None
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    wall_s: float | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One execution of some cases at one commit in one environment. ``declared``: every case that was asked for."""

    id: str
    created_at: str
    suite: str
    environment: Json
    schema: str = SCHEMA
    commit: Json = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    cases: tuple[CaseRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    extra: Json = field(default_factory=dict)
