"""What a measurement has found out so far, and how it becomes a record. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qwenperf.decode.engine import Engine, EngineFacts, SizedEngine
from qwenperf.errors import MeasurementError
from qwenperf.lab import metrics as formulas
from qwenperf.lab.steady import Steady
from qwenperf.measure.compiles import CompileLog
from qwenperf.schema.records import (
    CaseRecord,
    CompileEvent,
    Evidence,
    Finding,
    Metric,
    Roofline,
    Severity,
    TokenEvidence,
    metric,
)
from qwenperf.workloads.case import Workload

PHASES = ("cold", "warmup", "steady")


@dataclass(kw_only=True)
class Found:
    """Becomes the record whenever measuring ends, and may do so before."""

    log: CompileLog
    engine: Engine
    workload: Workload
    prompt_BT: np.ndarray  # noqa: N815  (axis suffix)
    case_id: str
    spec: Mapping[str, Any]
    to_text: Callable[[list[int]], str] | None
    metrics: dict[str, Metric] = field(default_factory=dict)
    tokens: dict[str, np.ndarray] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)
    roofline: Roofline | None = None
    trace_path: str | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.facts = EngineFacts()
        if isinstance(self.engine, SizedEngine):
            work = self.workload
            facts: Any = self.engine.facts(work.batch, work.prompt_length, work.new_tokens)
            if not isinstance(facts, EngineFacts):
                seen = f"{self.engine.name}.facts() returned {type(facts).__name__} {facts!r}"[:120]
                raise MeasurementError(f"{seen}.", advice="Return qwenperf.decode.engine.EngineFacts.")
            self.facts = facts
        self.add(formulas.fact_metrics(self.workload, self.facts))

    def add(self, named: Iterable[tuple[str, Metric]]) -> None:
        """Take metrics in."""
        self.metrics.update(named)

    def take(self, steady: Steady, trials: int) -> None:
        """Turn the steady windows into metrics; a void one gives none."""
        self.evidence["voids"] = steady.voids
        self.findings += steady.findings
        if steady.stream is not None:
            self.evidence["stream"] = steady.stream
            self.add(formulas.stream_metrics(steady.stream))
        if steady.repeated is not None:
            self.tokens["repeat"] = steady.repeated
        if steady.request_s:
            self.add(formulas.request_metrics(self.workload, steady.request_s))
        if steady.ttft_s:
            self.add(formulas.first_token_metrics(self.workload, steady.ttft_s))
        if steady.request_s and steady.ttft_s:
            decode = formulas.decode_metrics(self.workload, steady.request_s, steady.ttft_s, self.facts, self.roofline)
            self.add(decode)
            if "tpot_s" not in self.metrics:
                self.findings.append(_no_decode_time(steady, trials))

    def record(self) -> CaseRecord:
        """Return everything so far as a record; compiles of the check do not count."""
        events = tuple(event for event in self.log.events if event.phase in PHASES or event.refused)
        evidence = dict(self.evidence)
        if self.refused:
            evidence["voids"] = (*evidence.get("voids", ()), self.refused)
        if "request" in self.tokens:
            evidence["tokens"] = _token_evidence(self.prompt_BT, self.tokens["request"], self.to_text)
        return CaseRecord(
            id=self.case_id,
            spec=self.spec,
            metrics={**self.metrics, **dict(_compile_metrics(self.log, events))},
            evidence=Evidence(compiles=events, roofline=self.roofline, **evidence),
            trace=self.trace_path,
            findings=tuple(self.findings),
        )


def _compile_metrics(log: CompileLog, events: Iterable[CompileEvent]) -> Iterable[tuple[str, Metric]]:
    for phase in PHASES:
        yield f"compiles_{phase}", metric(f"compiles_{phase}", log.count(phase))
    yield "compile_s", metric("compile_s", sum(log.seconds(phase) for phase in PHASES))
    yield "cache_hits", metric("cache_hits", sum(event.cache_hit for event in events))


def _token_evidence(
    prompt_BT: np.ndarray, tokens_BN: np.ndarray, to_text: Callable[[list[int]], str] | None
) -> TokenEvidence:
    rows = tuple(tuple(row) for row in tokens_BN.tolist())
    text = None if to_text is None else to_text(list(rows[0]))
    return TokenEvidence(prompt=tuple(tuple(row) for row in prompt_BT.tolist()), generated=rows, text=text)


def _no_decode_time(steady: Steady, trials: int) -> Finding:
    return Finding(
        code="no-decode-time",
        severity=Severity.WARNING,
        message=f"in {trials} trials a whole request took no longer than its first token: no time per token.",
        advice="Generate more tokens, or use a quieter machine.",
        data={"request_s": list(steady.request_s), "ttft_s": list(steady.ttft_s)},
    )
