"""Builds a case's engine as its ``start`` says, and leaves programs for a later process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from qwenperf.decode.build import build_engine
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.plan import Shape
from qwenperf.decode.start import save_executables
from qwenperf.errors import ConfigError
from qwenperf.lab.options import Options
from qwenperf.lab.prompts import make_prompt
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.registry import Model, load_model
from qwenperf.schema.records import Finding, Severity
from qwenperf.units import seconds
from qwenperf.workloads.case import Case
from qwenperf.workloads.engine import parse_engine

_PROGRAMS = "programs"


def ready_engine(model: Model, case: Case, options: Options) -> tuple[LadderEngine, tuple[Finding, ...]]:
    """Return the case's engine, and what happened before its first request.

    Raises:
      ConfigError: an engine that starts from saved programs, and nobody saved them.
    """
    work, settings = case.workload, parse_engine(case.engine)
    capacity = work.prompt_length + work.new_tokens
    if settings.start == "request":
        return build_engine(model, settings, capacity=capacity, name=case.engine), ()
    path = None
    if settings.start == "saved":
        if options.start_folder is None:
            raise ConfigError(
                f"{case.engine} loads programs that an earlier process saved, and there was none.",
                advice="Measure it with `qwenperf run`, which starts one before.",
            )
        path = Path(options.start_folder) / _PROGRAMS
    with CompileLog(phase="start") as log:
        engine = build_engine(
            model, settings, capacity=capacity, name=case.engine, declare=[_shape(case)], executables=path
        )
    return engine, (_started(settings.start, log),)


def leave_programs(case: Case, folder: Path) -> dict[str, Any]:
    """Make a request as the case's, and leave in ``folder`` what a later process loads; return what was compiled.

    The persistent cache, where the engine has it, keeps programs by itself.
    """
    work, settings = case.workload, parse_engine(case.engine)
    capacity = work.prompt_length + work.new_tokens
    model = load_model(case.model, work.dtype, seed=case.seed)
    prompt_BT = make_prompt(work, vocab_size=model.config.vocab_size, tokenizer=model.tokenizer, seed=case.seed)
    with CompileLog() as log:
        engine = build_engine(model, replace(settings, start="request"), capacity=capacity)
        if settings.start == "saved":
            save_executables(engine, folder / _PROGRAMS, [_shape(case)])
        if settings.compile_cache:
            engine.generate(prompt_BT, work.new_tokens)
            list(engine.stream(prompt_BT, work.new_tokens))
    return {"programs": log.count(), "compile_s": log.seconds()}


def _shape(case: Case) -> Shape:
    work = case.workload
    return Shape(batch=work.batch, prompt_length=work.prompt_length, new_tokens=work.new_tokens)


def _started(start: str, log: CompileLog) -> Finding:
    programs, hits, took = log.count(), log.cache_hits(), log.seconds()
    return Finding(
        code="compiled-at-start",
        severity=Severity.NOTE,
        message=f"start={start}: {programs} programs were compiled in {seconds(took)} before the first request, "
        f"{hits} came from the persistent cache; cold figures leave that out.",
        data={"programs": programs, "cache_hits": hits, "compile_s": took},
    )
