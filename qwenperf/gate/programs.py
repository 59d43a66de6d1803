"""Which compiled programs a gate reads: all that a request runs for its tokens, not one that stands for the others."""

from __future__ import annotations

from qwenperf.schema.records import CaseRecord, ProgramFacts


def decode_programs(case: CaseRecord) -> tuple[ProgramFacts, ...]:
    """Return the decode step, then every other program that was read (the loop on the device); empty if none was."""
    step = case.evidence.program
    first = () if step is None else (step,)
    return first + tuple(one for one in case.evidence.programs if step is None or one.name != step.name)
