"""The one way in for everybody who measures a case of ours: command, pytest, asv. In this process, unjudged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from qwenperf.decode.engine import Engine, SizedEngine
from qwenperf.lab.extrapolate import ends, extrapolate
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.lab.own_engine import own_engine
from qwenperf.lab.prompts import make_prompt
from qwenperf.lab.ready import ready_engine
from qwenperf.measure import environment
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.roofline import measure_roofline
from qwenperf.models.registry import Model, load_model
from qwenperf.schema.records import CaseRecord, Finding
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.factory import is_factory


def run_case(
    case: Case,
    options: Options | None = None,
    *,
    on_phase: Callable[[str], None] = lambda _: None,
    on_steady: Callable[[CaseRecord], None] = lambda _: None,
) -> CaseRecord:
    """Build the case's engine and measure it. Cold figures are cold only in a fresh process.

    ``on_steady`` is given what there is when all is timed and nothing is checked yet.

    Raises:
      UnknownNameError: no such model, engine or dtype.
      UsageError: an engine's factory that makes none.
      CheckpointError: weights that cannot be read.
      CapacityError: a workload longer than the model's positions.
    """
    options = options or Options(trials=case.trials)
    options = replace(options, requests_only=case.requests_only or options.requests_only)
    work = case.workload
    on_phase("loading the model")
    model = load_model(case.model, work.dtype, seed=case.seed)
    engine, started = make_engine(model, case, options)
    remarks = (*model.findings, *started)
    fingerprint = environment.fingerprint(environment.describe())

    def measure(workload: Workload, **more: Any) -> CaseRecord:
        prompt_BT = make_prompt(workload, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
        with CompileLog() as log:
            return measure_engine(
                engine,
                workload,
                prompt_BT,
                log=log,
                clock=Clock(log),
                case_id=case.id,
                spec=case.to_json(),
                to_text=None if model.tokenizer is None else model.tokenizer.decode,
                **{"options": options, "on_phase": on_phase, **more},
            )

    roofline = partial(measure_roofline, fingerprint) if options.roofline else None
    if case.measured_tokens and isinstance(engine, SizedEngine):
        record = _measure_ends(case, engine, partial(measure, options=options, roofline=roofline), options, on_phase)
    else:
        told = lambda seen: on_steady(replace(seen, findings=(*remarks, *seen.findings)))  # noqa: E731
        record = measure(work, roofline=roofline, on_steady=told)
    return replace(record, findings=(*remarks, *record.findings))


def make_engine(model: Model, case: Case, options: Options) -> tuple[Engine, tuple[Finding, ...]]:
    """Return the case's engine, one of ours or somebody's own, and what happened before its first request."""
    if is_factory(case.engine):
        return own_engine(case.engine, model, case.workload.prompt_length + case.workload.new_tokens), ()
    return ready_engine(model, case, options)


def _measure_ends(
    case: Case,
    engine: SizedEngine,
    measure: Callable[..., CaseRecord],
    options: Options,
    on_phase: Callable[[str], None],
) -> CaseRecord:
    """Measure the first and the last tokens of a request in one process, and extrapolate the rest."""
    first, last = ends(case)
    start = measure(first, on_phase=lambda name: on_phase(f"{name} of the first {first.new_tokens} tokens"))
    ceiling = start.evidence.roofline
    end = measure(
        last,
        options=replace(options, trace_folder=None),
        roofline=None if ceiling is None else lambda: ceiling,
        on_phase=lambda name: on_phase(f"{name} of the last {last.new_tokens} tokens"),
    )
    work = case.workload
    return extrapolate(case, engine.facts(work.batch, work.prompt_length, work.new_tokens), start, end)
