"""What a gate reads besides metrics: tokens, divergence, compiles, facts of programs, times of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


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
