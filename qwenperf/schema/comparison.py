"""Frozen records of a comparison, which ``comparison.json`` holds: base and head measured together, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenperf.schema.records import Finding, Json, Metric, Verdict

COMPARISON_SCHEMA = "qwenperf.comparison.v1"


@dataclass(frozen=True, kw_only=True)
class SideRecord:
    """One side: what people call it, the commit it was made of, and where it ran."""

    label: str
    kind: str
    commit: Json = field(default_factory=dict)
    environment: Json = field(default_factory=dict)
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """Neighbouring trials of one case in seconds. ``order`` says whose turn it was: A is base, B is head."""

    order: str
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    steal_s: float = 0.0
    load: float | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PairRecord:
    """Two fresh processes, ``first`` spawned first, and the rounds of every case, anchors included.

    ``stage`` is 2 for pairs that confirm a fail. ``failed`` says why a pair has no rounds, or not all.
    """

    number: int
    first: str
    stage: int = 1
    rounds: Mapping[str, tuple[RoundRecord, ...]] = field(default_factory=dict)
    failed: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SideEvidence:
    """What a side's process says of a case before it is timed: the same on every repetition.

    ``tokens`` are those of the first request, ``programs`` fingerprints by name, ``compiles`` programs compiled for
    the first request; ``error`` why there is nothing else.
    """

    tokens: tuple[tuple[int, ...], ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    error: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ComparedCase:
    """One case on both sides; a side is ``None`` where it does not know the case. ``repeats``: requests in a trial."""

    id: str
    spec: Json = field(default_factory=dict)
    base: SideEvidence | None = None
    head: SideEvidence | None = None
    repeats: int = 1
    verdicts: tuple[Verdict, ...] = ()
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """Base and head, measured together. ``declared``: every case that was asked for."""

    id: str
    created_at: str
    base: SideRecord
    head: SideRecord
    schema: str = COMPARISON_SCHEMA
    plan: Json = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    cases: tuple[ComparedCase, ...] = ()
    pairs: tuple[PairRecord, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    extra: Json = field(default_factory=dict)
