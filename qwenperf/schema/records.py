"""Frozen records of a run: what ``run.json`` holds, as types. Their parts are in ``evidence`` and ``judged``.

A record keeps keys that it does not know (``extra``), so that an older reader passes on what a newer
writer wrote. How records become JSON is ``codec``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from qwenperf.schema.evidence import (
    CompileCause,
    CompileEvent,
    Divergence,
    Evidence,
    Json,
    ProgramFacts,
    Roofline,
    StreamEvidence,
    TokenEvidence,
)
from qwenperf.schema.judged import Finding, Outcome, Severity, Verdict
from qwenperf.schema.metrics import Direction, Kind, lookup

__all__ = [
    "SCHEMA", "CaseRecord", "CompileCause", "CompileEvent", "Divergence", "Evidence", "Finding", "Json", "Metric",
    "Outcome", "ProgramFacts", "Roofline", "RunRecord", "Severity", "Status", "StreamEvidence", "TokenEvidence",
    "Verdict", "metric",
]  # fmt: skip

SCHEMA = "qwenperf.run.v1"


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
