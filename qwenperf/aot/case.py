"""A program of one of our cases, compiled for a target, or remembered from the last time that it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qwenperf.aot import remembered
from qwenperf.aot.compile import Lowered, Work, compile_lowered, lower
from qwenperf.aot.engines import settings_for
from qwenperf.aot.functions import place as placed_on
from qwenperf.aot.functions import with_sizes
from qwenperf.aot.ids import PROGRAMS, program_id
from qwenperf.aot.models import CaseProgram, case_program, model_config
from qwenperf.aot.own_programs import Make, own_program
from qwenperf.aot.platforms import check_compiler
from qwenperf.aot.topology import Target, described, devices
from qwenperf.program.stability import marked
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.records import Finding, Severity, Status
from qwenperf.workloads.case import Case
from qwenperf.workloads.factory import is_factory

_ON_EACH = Finding(
    code="on-each-device",
    severity=Severity.NOTE,
    message="each device has all weights and the whole state: how an engine of yours is divided is not known here.",
    advice="Compile its jitted functions with qwenperf.compile_for, which takes a mesh and specs.",
)


def compile_case(
    case: Case,
    program: str,
    target: Target,
    *,
    place: Path | None = None,
    again: bool = False,
    make: Make | None = None,
) -> AotCase:
    """Return the record of one program of ``case`` for ``target``; ``place`` is where records are remembered.

    ``extra.remembered`` says that nothing was compiled now; ``compile_s`` is then what it took the first time. With
    ``again`` a program whose record is remembered is compiled once more, and what differs is marked as unstable.
    ``make`` makes engines of somebody's own, without which there are none.

    Raises:
      QwenperfError: no such model, engine or target, or settings that they cannot have together.
    """
    if make is not None and is_factory(case.engine):
        return _of_somebody(case, program, target, make, place=place, again=again)
    asked_as = None if place is None else _asked_as(case, program, target)
    known = remembered.read(place, asked_as) if place is not None and asked_as is not None and not again else None
    if known is not None:
        return replace(known, extra={**known.extra, "remembered": True})
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
    found = _compiled(lowered, place, name, again=again)
    if asked_as is not None and found.status is Status.MEASURED:
        remembered.write(place, asked_as, _without_mark(found))
    return found


def _of_somebody(case: Case, program: str, target: Target, make: Make, *, place: Path | None, again: bool) -> AotCase:
    """Return the record of a program of somebody's own engine. Every device of a target has all of its arrays."""
    check_compiler(target.platform)
    found, work, chips = own_program(case, program, make), case.workload, devices(target)
    lowered = lower(
        found.jitted,
        placed_on(found.arguments, chips, mesh=None, specs=None),
        target,
        case_id=program_id(case.id, target.name, program),
        name=program,
        spec={"case": case.to_json(), "program": program},
        findings=(*found.findings, *((_ON_EACH,) if len(chips) > 1 else ())),
    )
    if not isinstance(lowered, Lowered):
        return lowered
    told = Work(
        dtype=work.dtype,
        tokens_per_call=work.batch * (work.prompt_length if program == PROGRAMS[0] else 1),
        batch=work.batch,
        context=work.prompt_length + work.new_tokens,
    )
    lowered = replace(lowered, work=with_sizes(told, lowered))
    if place is None:
        return compile_lowered(lowered)
    # Its lines are part of the name: no digest of ours knows its code.
    lines = lowered.lowered.as_text(debug_info=True)
    name = remembered.key(lines, lowered.case.target, {"platform": target.platform}, vars(lowered.work))
    return _compiled(lowered, place, name, again=again)


def _compiled(lowered: Lowered, place: Path, name: str, *, again: bool) -> AotCase:
    """Return the record called ``name``, or compile; what was compiled is written down."""
    own, known = lowered.case, remembered.read(place, name)
    if known is not None:
        # What was asked for may differ where the program does not: the record is this case's.
        known = replace(known, id=own.id, spec=own.spec, findings=own.findings)
        if not again:
            return replace(known, extra={**known.extra, "remembered": True})
    elif again:  # its first record is gone: both compilations are made here
        known = compile_lowered(lowered)
        if known.status is not Status.MEASURED:
            return known
    record = compile_lowered(lowered)
    record = record if known is None else marked(known, record)
    if record.status is Status.MEASURED:
        remembered.write(place, name, record)
    return record


def _without_mark(case: AotCase) -> AotCase:
    return replace(case, extra={key: value for key, value in case.extra.items() if key != "remembered"})


def _asked_as(case: Case, program: str, target: Target) -> str | None:
    """Return the name of the record of this question; errors are those of asking it."""
    check_compiler(target.platform)
    settings_for(case.engine, target.platform)
    return remembered.asked_key(described(target), case.to_json(), program, repr(model_config(case.model)))


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
