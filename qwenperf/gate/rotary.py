"""Gate "rotary": the compiled decode step computes no sine and no cosine; the tables come from outside."""

from __future__ import annotations

from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.schema.records import CaseRecord, Verdict

GATE = "rotary"

_MAX_LINES = 8


def judge(case: CaseRecord) -> Verdict:
    """Judge that the program of the decode step has no trigonometric operation."""
    program = case.evidence.program
    if program is None or not program.operations:
        what = (
            "the compiled decode step was not read" if program is None else f"no operation of {program.name} was read"
        )
        return skipped(GATE, what, advice="Give the engine `programs`, with the compiled decode step.")
    found = program.trigonometric
    if not found:
        operations = sum(program.operations.values())
        return passed(GATE, f"no sine or cosine among the {operations:,} operations of {program.name}")
    places = f" and {len(found) - 1} other place{'s' * (len(found) > 2)}" if len(found) > 1 else ""
    more = [f"and {len(found) - _MAX_LINES} more"] if len(found) > _MAX_LINES else []
    return failed(
        GATE,
        f"{program.name} computes rotary angles anew in each step: {found[0]}{places}",
        [*found[:_MAX_LINES], *more],
        advice="Compute the rotary tables once, when the model is loaded, and pass them to the step as arguments.",
        count=len(found),
    )
