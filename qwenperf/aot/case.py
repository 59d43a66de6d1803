"""A program of one of our cases, compiled for a target, or remembered from the last time that it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qwenperf.aot import remembered
from qwenperf.aot.compile import Lowered, Work, compile_lowered, lower
from qwenperf.aot.ids import program_id
from qwenperf.aot.models import CaseProgram, case_program
from qwenperf.aot.topology import Target
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.records import Status
from qwenperf.workloads.case import Case


def compile_case(case: Case, program: str, target: Target, *, place: Path | None = None) -> AotCase:
    """Return the record of one program of ``case`` for ``target``; ``place`` is where records are remembered.

    ``extra.remembered`` says that nothing was compiled now; ``compile_s`` is then what it took the first time.

    Raises:
      QwenperfError: no such model, engine or target, or settings that they cannot have together.
    """
    asked = case_program(case, program, target)
    lowered = lower(
        asked.jitted,
        asked.arguments,
        target,
        case_id=program_id(case.id, target.name, program),
        name=program,
        spec={"case": case.to_json(), "program": program},
        mesh=asked.layout.mesh if len(asked.layout.devices) > 1 else None,
        work=_work(case, asked),
        findings=asked.findings,
    )
    if not isinstance(lowered, Lowered):
        return lowered
    if place is None:
        return compile_lowered(lowered)
    name = remembered.key(lowered.text, lowered.case.target, asked.options, vars(lowered.work))
    known = remembered.read(place, name)
    if known is not None:
        # What was asked for may differ where the program does not: the record is this case's.
        own = lowered.case
        extra = {**known.extra, "remembered": True}
        return replace(known, id=own.id, spec=own.spec, findings=own.findings, extra=extra)
    record = compile_lowered(lowered)
    if record.status is Status.MEASURED:
        remembered.write(place, name, record)
    return record


def _work(case: Case, asked: CaseProgram) -> Work:
    work = case.workload
    return Work(
        dtype=work.dtype,
        tokens_per_call=asked.tokens_per_call,
        batch=work.batch,
        context=work.prompt_length + work.new_tokens,
        weight_bytes=asked.weight_bytes,
        cache_bytes=asked.cache_bytes,
        layers=asked.layers,
    )
