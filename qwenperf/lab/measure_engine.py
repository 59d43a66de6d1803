"""Measures any engine in declared phases: cold, warm-up, steady; then checks its tokens and reads its programs.

Used by ``run_case`` and by the pytest plugin. Knows no case names, no files but the trace's, and no budgets: what the
record means is for the gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qwenperf.decode.engine import CompiledEngine, Engine
from qwenperf.errors import RefusedCallError
from qwenperf.lab import metrics as formulas
from qwenperf.lab.check import UncachedLogits, check_tokens, find_reference
from qwenperf.lab.divergence import equal_share
from qwenperf.lab.forms import Forms, stack
from qwenperf.lab.found import Found
from qwenperf.lab.options import Options
from qwenperf.lab.program_facts import facts_of
from qwenperf.lab.steady import measure_steady
from qwenperf.lab.trace import trace_steps
from qwenperf.measure import memory
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.devices import devices_used
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.records import CaseRecord, Roofline, metric
from qwenperf.workloads.case import Workload

LEAST_TRIALS = 2
"""Fewer would let the machine's drift within one trial pass for growth with the position."""

PREFILL = "prefill"
"""The program whose trigonometry and copies happen once a request, whatever its length: no gate reads it."""

CHECK = "check"
"""The phase of everything that is run to look at the engine and would not run in service; its compiles do not count."""


def _ignore(_: object) -> None:
    """Stand in for a caller who does not want to know."""


@one_measurement()
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
    on_steady: Callable[[CaseRecord], None] = _ignore,
    prompts: Iterator[np.ndarray] | None = None,
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
      on_steady: given the record as it is when all is timed and nothing is checked yet.
      prompts: what steady trials ask for, of the shape of ``prompt_BT``; by default its tokens in other orders. Who
        measures by turns hands the same iterator over each time.

    A call that an ahead-of-time executable refuses ends the measurement; the record keeps what was measured and the
    refusal as evidence.

    Raises:
      MeasurementError: a request or a stream returned something that is no answer.
      MachineBusyError: something else is measured on this machine.
      QwenperfError: whatever the engine refuses on purpose (capacity, tokens).
    """
    options = options or Options()
    found = Found(
        log=log,
        engine=engine,
        workload=workload,
        prompt_BT=prompt_BT,
        case_id=case_id or f"{engine.name}/{workload.label}",
        spec={"engine": engine.name, "workload": vars(workload)} if spec is None else spec,
        to_text=to_text,
    )
    forms = Forms(engine=engine, workload=workload, prompt_BT=prompt_BT, vocab_size=found.facts.vocab_size)
    try:
        timed = replace(forms, requests_only=options.requests_only)
        _measure(found, timed, clock, options=options, roofline=roofline, on_phase=on_phase, prompts=prompts)
        on_steady(found.record())
        _check(found, timed, reference or find_reference(engine), options, on_phase)
        _read_programs(found)
        _trace(found, forms, options, on_phase)
    except RefusedCallError as error:
        found.refused = str(error)
    return found.record()


def _measure(
    found: Found,
    forms: Forms,
    clock: Clock,
    *,
    options: Options,
    roofline: Callable[[], Roofline] | None,
    on_phase: Callable[[str], None],
    prompts: Iterator[np.ndarray] | None,
) -> None:
    """Run the three phases that a service goes through."""
    workload = forms.workload
    on_phase("cold")
    with found.log.phase("cold"):
        cold = clock.call(forms.request)
    forms.check_tokens(cold.result)
    found.tokens["request"] = cold.result
    found.add(formulas.cold_metrics(workload, cold.seconds))
    found.metrics["peak_rss_bytes"] = metric("peak_rss_bytes", memory.peak_rss_bytes())
    if roofline is not None:
        # Before the warm-up, whose requests fill the caches again that this empties.
        on_phase("roofline")
        with found.log.phase(CHECK):
            found.roofline = roofline()
    on_phase("warmup")
    with found.log.phase("warmup"):
        # Every form that is timed later runs once whole: as many tokens, hence the same shapes. Where a request takes
        # minutes the cold one was that already; one more token shows whether a second request compiles anything.
        warm_s = cold.seconds if forms.requests_only else _warm(forms, clock)
        if forms.streams:
            forms.check_stream(clock.call(lambda: list(forms.stream())).result, "warm-up")
        else:
            forms.check_first_token(clock.call(forms.first_token).result, "warm-up")
    on_phase("steady")
    # A trial is a request and a stream of the same length; the stream's own warm-up may have compiled.
    trials = _trials(options, 2 * warm_s)
    if found.facts.devices is None:
        # Only now: an engine may put its arrays where they belong with the first request.
        found.facts = replace(found.facts, devices=devices_used())
    floors = formulas.floors(workload, found.facts, found.roofline)
    found.take(measure_steady(forms, clock, trials, floors, prompts), trials)


def _warm(forms: Forms, clock: Clock) -> float:
    """Return the seconds of one warm request."""
    warm = clock.call(forms.request)
    forms.check_tokens(warm.result, "warm-up")
    return warm.seconds


def _trials(options: Options, trial_s: float) -> int:
    """Return how many trials of about ``trial_s`` to time: no fewer than two, however slow."""
    trial_s = max(trial_s, 1e-9)
    wanted = max(options.trials, min(options.trials_most, math.ceil(options.steady_least_s / trial_s)))
    return min(wanted, max(LEAST_TRIALS, int(options.steady_budget_s / trial_s)))


def _check(
    found: Found,
    forms: Forms,
    reference: UncachedLogits | None,
    options: Options,
    on_phase: Callable[[str], None],
) -> None:
    """Compare tokens and logits with uncached ones, of the warm engine too: its trials had other prompts."""
    if reference is None:
        return
    on_phase("tokens")
    with found.log.phase(CHECK), found.log.refusals():
        if "repeat" not in found.tokens:
            found.tokens["repeat"] = forms.request()
            forms.check_tokens(found.tokens["repeat"], "repeated request")
        if forms.streams:
            items = tuple(forms.stream())
            forms.check_stream(items, "repeated stream")
            found.tokens["stream"] = stack(items)
        divergence = check_tokens(
            found.engine, found.workload, found.prompt_BT, found.tokens, reference, logit_check=options.logit_check
        )
    found.evidence["divergence"] = divergence
    found.metrics["tokens_equal"] = metric("tokens_equal", equal_share(divergence, found.workload.new_tokens))
    if divergence.max_logit_error is not None:
        found.metrics["max_logit_error"] = metric("max_logit_error", divergence.max_logit_error)


def _read_programs(found: Found) -> None:
    """Read what the compiler made of the decode step, and of the loop that a request runs."""
    if not isinstance(found.engine, CompiledEngine):
        return
    work = found.workload
    with found.log.phase(CHECK):
        programs = found.engine.programs(work.batch, work.prompt_length, work.new_tokens)
        facts = {name: facts_of(program) for name, program in programs.items() if name != PREFILL}
    sizes = [program.cache_bytes for program in programs.values() if program.cache_bytes]
    if sizes and found.facts.kv_cache_allocated_bytes is None:
        found.metrics["kv_cache_allocated_bytes"] = metric("kv_cache_allocated_bytes", max(sizes))
    if facts:
        found.evidence["programs"] = tuple(facts.values())
        found.evidence["program"] = facts.get("decode_step") or next(iter(facts.values()))
        found.add(formulas.program_metrics(found.evidence["program"]))


def _trace(found: Found, forms: Forms, options: Options, on_phase: Callable[[str], None]) -> None:
    """Capture a few steady steps, last, because a profiler slows what comes after it."""
    if options.trace_folder is None:
        return
    on_phase("trace")
    with found.log.phase(CHECK):
        capture = trace_steps(forms, options)
    if capture.path is not None:
        found.trace_path = str(capture.path.relative_to(options.trace_folder))
    found.evidence["trace_summary"] = capture.summary
    found.findings += capture.findings
