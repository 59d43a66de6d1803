"""Measures any engine in declared phases: cold, warm-up, steady; then checks its tokens and reads its programs.

Used by ``run_case`` and by the pytest plugin. Knows no case names, no files but the trace's, and no budgets: what the
record means is for the gates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qwenperf.decode.engine import CompiledEngine, Engine, EngineFacts, Program, SizedEngine
from qwenperf.errors import RefusedCallError
from qwenperf.lab import metrics as formulas
from qwenperf.lab.check import UncachedLogits, check_tokens, find_reference
from qwenperf.lab.divergence import equal_share
from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.lab.steady import Steady, measure_steady
from qwenperf.lab.trace import trace_steps
from qwenperf.measure import memory
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.schema.records import (
    CaseRecord,
    CompileEvent,
    Evidence,
    Finding,
    Metric,
    ProgramFacts,
    Roofline,
    Severity,
    TokenEvidence,
    metric,
)
from qwenperf.workloads.case import Workload

PHASES = ("cold", "warmup", "steady")
LEAST_TRIALS = 2
"""Fewer would let the machine's drift within one trial pass for growth with the position."""

PREFILL = "prefill"
"""The program whose trigonometry and copies happen once a request, whatever its length: no gate reads it."""

CHECK = "check"
"""The phase of everything that is run to look at the engine and would not run in service; its compiles do not count."""


def _ignore(name: str) -> None:
    """Stand in for a caller who does not want to know the phases."""


def measure_engine(
    engine: Engine,
    workload: Workload,
    prompt_BT: np.ndarray,
    *,
    log: CompileLog,
    clock: Clock,
    options: Options | None = None,
    case_id: str = "",
    spec: Mapping[str, Any] | None = None,
    reference: UncachedLogits | None = None,
    roofline: Callable[[], Roofline] | None = None,
    to_text: Callable[[list[int]], str] | None = None,
    on_phase: Callable[[str], None] = _ignore,
) -> CaseRecord:
    """Measure one engine with one workload; the record carries no verdicts yet.

    Args:
      engine: what is measured; more protocols of ``decode.engine`` mean more evidence.
      workload: sizes of the request. ``prompt_BT`` has its batch and prompt length.
      prompt_BT: int32 prompt tokens.
      log: an entered compile log, and ``clock`` one on that log.
      clock: the one that times.
      options: bounds and switches.
      case_id: the record's id; by default engine and workload.
      spec: the case as data; by default engine and workload.
      reference: uncached logits of ``engine``'s model; by default the engine's own, where it has them.
      roofline: measures what the machine can do; ``None`` leaves MBU and MFU out.
      to_text: decodes one row of tokens.
      on_phase: told what begins.

    A call that an ahead-of-time executable refuses ends the measurement; the record keeps what was measured and the
    refusal as evidence.

    Raises:
      MeasurementError: the engine returned something that is no answer.
      QwenperfError: whatever the engine refuses on purpose (capacity, tokens).
    """
    options = options or Options()
    forms = Forms(engine=engine, workload=workload, prompt_BT=prompt_BT)
    found = _Found(log=log, engine=engine, workload=workload)
    try:
        _measure(found, forms, clock, options=options, roofline=roofline, on_phase=on_phase)
        found.check(prompt_BT, reference or find_reference(engine), options, on_phase)
        found.read_programs()
        found.trace(forms, options, on_phase)
    except RefusedCallError as error:
        found.refused = str(error)
    default_spec = {"engine": engine.name, "workload": vars(workload)}
    return found.record(
        case_id or f"{engine.name}/{workload.label}", default_spec if spec is None else spec, prompt_BT, to_text
    )


def _measure(
    found: _Found,
    forms: Forms,
    clock: Clock,
    *,
    options: Options,
    roofline: Callable[[], Roofline] | None,
    on_phase: Callable[[str], None],
) -> None:
    """Run the three phases that a service goes through."""
    workload = forms.workload
    on_phase("cold")
    with found.log.phase("cold"):
        cold = clock.call(forms.request)
    forms.check_tokens(cold.result, found.facts.vocab_size)
    found.tokens["request"] = cold.result
    found.add(formulas.cold_metrics(workload, cold.seconds))
    on_phase("warmup")
    with found.log.phase("warmup"):
        # Every form that is timed later runs once whole: as many tokens, hence the same shapes.
        warm_s = clock.call(forms.request).seconds
        clock.call(lambda: list(forms.stream()) if forms.streams else forms.first_token())
    found.metrics["peak_rss_bytes"] = metric("peak_rss_bytes", memory.peak_rss_bytes())
    if roofline is not None:
        on_phase("roofline")
        with found.log.phase(CHECK):
            found.roofline = roofline()
    on_phase("steady")
    # A trial is a request and a stream of the same length; the stream's own warm-up may have compiled.
    affordable = int(options.steady_budget_s / max(2 * warm_s, 1e-9))
    trials = min(options.trials, max(LEAST_TRIALS, affordable))
    floors = formulas.floors(workload, found.facts, found.roofline)
    found.take(measure_steady(forms, clock, trials, floors), trials)


@dataclass(kw_only=True)
class _Found:
    """What has been found out so far; becomes the record whenever measuring ends."""

    log: CompileLog
    engine: Engine
    workload: Workload
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
            self.facts = self.engine.facts(work.batch, work.prompt_length, work.new_tokens)
        self.add(formulas.fact_metrics(self.workload, self.facts))

    def add(self, named: Iterable[tuple[str, Metric]]) -> None:
        self.metrics.update(named)

    def take(self, steady: Steady, trials: int) -> None:
        """Turn the steady windows into metrics; a void one gives none."""
        self.evidence["voids"] = steady.voids
        self.findings += steady.findings
        if steady.stream is not None:
            self.evidence["stream"] = steady.stream
            self.add(formulas.stream_metrics(steady.stream))
        if steady.streamed is not None:
            self.tokens["stream"] = steady.streamed
        if steady.request_s:
            self.tokens["repeat"] = steady.repeated
            self.add(formulas.request_metrics(self.workload, steady.request_s))
        if steady.ttft_s:
            self.add(formulas.first_token_metrics(self.workload, steady.ttft_s))
        if steady.request_s and steady.ttft_s:
            decode = formulas.decode_metrics(self.workload, steady.request_s, steady.ttft_s, self.facts, self.roofline)
            self.add(decode)
            if "tpot_s" not in self.metrics:
                self.findings.append(_no_decode_time(steady, trials))

    def check(
        self,
        prompt_BT: np.ndarray,
        reference: UncachedLogits | None,
        options: Options,
        on_phase: Callable[[str], None],
    ) -> None:
        """Compare tokens and logits with uncached ones."""
        if reference is None:
            return
        on_phase("tokens")
        with self.log.phase(CHECK), self.log.refusals():
            divergence = check_tokens(
                self.engine, self.workload, prompt_BT, self.tokens, reference, logit_check=options.logit_check
            )
        self.evidence["divergence"] = divergence
        self.metrics["tokens_equal"] = metric("tokens_equal", equal_share(divergence, self.workload.new_tokens))
        if divergence.max_logit_error is not None:
            self.metrics["max_logit_error"] = metric("max_logit_error", divergence.max_logit_error)

    def read_programs(self) -> None:
        """Read what the compiler made of the decode step, and of the loop that a request runs."""
        if not isinstance(self.engine, CompiledEngine):
            return
        work = self.workload
        with self.log.phase(CHECK):
            programs = self.engine.programs(work.batch, work.prompt_length, work.new_tokens)
            facts = {name: _facts(program) for name, program in programs.items() if name != PREFILL}
        if facts:
            self.evidence["programs"] = tuple(facts.values())
            self.evidence["program"] = facts.get("decode_step") or next(iter(facts.values()))
            self.add(formulas.program_metrics(self.evidence["program"]))

    def trace(self, forms: Forms, options: Options, on_phase: Callable[[str], None]) -> None:
        """Capture a few steady steps, last, because a profiler slows what comes after it."""
        if options.trace_folder is None:
            return
        on_phase("trace")
        with self.log.phase(CHECK):
            capture = trace_steps(forms, options)
        if capture.path is not None:
            self.trace_path = str(capture.path.relative_to(options.trace_folder))
        self.evidence["trace_summary"] = capture.summary
        self.findings += capture.findings

    def record(
        self,
        case_id: str,
        spec: Mapping[str, Any],
        prompt_BT: np.ndarray,
        to_text: Callable[[list[int]], str] | None,
    ) -> CaseRecord:
        """Return everything as a record; compiles of the check do not count."""
        events = tuple(event for event in self.log.events if event.phase in PHASES or event.refused)
        self.add(_compile_metrics(self.log, events))
        if self.refused:
            self.evidence["voids"] = (*self.evidence.get("voids", ()), self.refused)
        if "request" in self.tokens:
            self.evidence["tokens"] = _token_evidence(prompt_BT, self.tokens["request"], to_text)
        evidence = Evidence(compiles=events, roofline=self.roofline, **self.evidence)
        return CaseRecord(
            id=case_id,
            spec=spec,
            metrics=self.metrics,
            evidence=evidence,
            trace=self.trace_path,
            findings=tuple(self.findings),
        )


def _facts(program: Program) -> ProgramFacts:
    return memory.program_facts(
        program.name,
        program.compiled,
        lowered_text=program.lowered_text,
        donated=program.donated,
        donated_bytes=program.donated_bytes,
        cache_shapes=program.cache_shapes,
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
