"""The one way in for everybody who measures a case of ours: command, pytest, asv. In this process, unjudged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qwenperf.decode.build import build_engine
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.lab.prompts import make_prompt
from qwenperf.measure import environment
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.measure.roofline import measure_roofline
from qwenperf.models.registry import load_model
from qwenperf.schema.records import CaseRecord
from qwenperf.workloads.case import Case


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
      CheckpointError: weights that cannot be read.
      CapacityError: a workload longer than the model's positions.
    """
    options = options or Options(trials=case.trials)
    work = case.workload
    on_phase("loading the model")
    model = load_model(case.model, work.dtype, seed=case.seed)
    engine = build_engine(model, case.engine, capacity=work.prompt_length + work.new_tokens)
    prompt_BT = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
    fingerprint = environment.fingerprint(environment.describe())
    with CompileLog() as log:
        record = measure_engine(
            engine,
            work,
            prompt_BT,
            log=log,
            clock=Clock(log),
            options=options,
            case_id=case.id,
            spec=case.to_json(),
            roofline=(lambda: measure_roofline(fingerprint)) if options.roofline else None,
            to_text=None if model.tokenizer is None else model.tokenizer.decode,
            on_phase=on_phase,
            on_steady=lambda seen: on_steady(replace(seen, findings=(*model.findings, *seen.findings))),
        )
    return replace(record, findings=(*model.findings, *record.findings))
