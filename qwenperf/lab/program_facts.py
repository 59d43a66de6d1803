"""Joins what an engine shows of a program with what ``measure`` reads from it."""

from __future__ import annotations

from qwenperf.decode.engine import Program
from qwenperf.measure import memory
from qwenperf.schema.records import ProgramFacts


def facts_of(program: Program) -> ProgramFacts:
    """Return the facts about one program of an engine."""
    return memory.program_facts(
        program.name,
        program.compiled,
        lowered_text=program.lowered_text,
        donated=program.donated,
        donated_bytes=program.donated_bytes,
        cache_shapes=program.cache_shapes,
        cache_bytes=(program.cache_part_bytes, program.cache_bytes),
    )
