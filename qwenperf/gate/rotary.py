"""Gate "rotary": no program that makes tokens computes a sine or cosine; the tables come from outside.

A request of an engine with its loop on the device runs the loop and never the single step: both are read.
"""

from __future__ import annotations

from qwenperf.gate.programs import decode_programs
from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.schema.records import CaseRecord, ProgramFacts, Verdict

GATE = "rotary"

_MAX_LINES = 8


def judge(case: CaseRecord) -> Verdict:
    """Judge that neither the decode step nor a loop around it has a trigonometric operation."""
    programs = decode_programs(case)
    unread = next((program.name for program in programs if not program.operations), "")
    if unread or not programs:
        what = f"no operation of {unread} was read" if unread else "the compiled decode step was not read"
        return skipped(GATE, what, advice="Give the engine `programs`, with the compiled decode step.")
    wrong = next((program for program in programs if program.trigonometric), None)
    if wrong is not None:
        return _computes(wrong)
    operations = sum(sum(program.operations.values()) for program in programs)
    names = " and ".join(program.name for program in programs)
    return passed(GATE, f"no sine or cosine among the {operations:,} operations of {names}")


def _computes(program: ProgramFacts) -> Verdict:
    found = program.trigonometric
    places = f" and {len(found) - 1} other place{'s' * (len(found) > 2)}" if len(found) > 1 else ""
    more = [f"and {len(found) - _MAX_LINES} more"] if len(found) > _MAX_LINES else []
    return failed(
        GATE,
        f"{program.name} computes rotary angles anew in each step: {found[0]}{places}",
        [*found[:_MAX_LINES], *more],
        advice="Compute the rotary tables once, when the model is loaded, and pass them to the step as arguments.",
        count=len(found),
        program=program.name,
    )
