"""Gate "cache-alias": the decode step updates the KV cache in place.

Donating an argument is a wish; whether the compiler granted it stands in the program: bytes aliased between input and
output. A copy of the cache within the step costs as much as reading it, at every token. Of arrays that fit a page of
memory the compiler may copy some for itself; that costs nothing that could be measured, so it is told and no failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from qwenperf import units
from qwenperf.gate.programs import decode_programs
from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.program.facts import copied_bytes
from qwenperf.schema.records import CaseRecord, Outcome, ProgramFacts, Verdict

GATE = "cache-alias"
SMALL_COPIES_BYTES = 4096
"""What all copies of one step together may move: less than that is no cost beside the call of a program."""

_ADVICE = (
    "Donate the cache (donate_argnames), and return it with the shape, dtype, sharding and order that it came with."
)
_CACHE_NAME = re.compile(r"(state|cache|kv|past)", re.IGNORECASE)

_COPY_ADVICE = "Update the cache with dynamic_update_slice, and do not read the old one after it was written."
_COMPILER_ADVICE = (
    "No line of yours makes these copies: the compiler put them in. It must where the old cache is read after it was "
    "written: then read the new one. Else it is the layout: XLA on CPU copies where batch and heads are both 1, and at "
    "batch 1 where heads come before positions ([B,H,S,D]), however the cache is updated. Positions before heads "
    "([B,S,H,D]) with more than one head, or a batch of 2, were updated in place. Our own engines have that order with "
    "+cache_layout=position-major."
)
_FROM = " from "
"""What stands in a copy's line before the line of source that made it."""


def judge(case: CaseRecord) -> Verdict:
    """Judge of every program that makes tokens that all cache arrays are aliased, and that none is copied or rewritten.

    An engine with its loop on the device runs the loop and never the single step: both are read.
    """
    programs, cache = decode_programs(case), case.metrics.get("kv_cache_allocated_bytes")
    missing = _missing(programs, None if cache is None else cache.value)
    if missing:
        return skipped(GATE, missing[0], advice=missing[1])
    assert cache is not None
    verdicts = [_judge_program(program, _on_one_device(program, int(cache.value))) for program in programs]
    return next((verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL), verdicts[0])


def _judge_program(program: ProgramFacts, size: int) -> Verdict:
    aliased, lost = program.alias_bytes or 0, [name for name in program.unaliased_donations if _of_cache(name, program)]
    data = {"program": program.name, "alias_bytes": aliased, "cache_bytes": size}
    data["unaliased"] = list(program.unaliased_donations)
    names = ", ".join(f"`{name}`" for name in program.unaliased_donations)
    if aliased < size:
        return failed(GATE, _not_aliased(program, aliased, size, names), program.cache_copies, _ADVICE, **data)
    if lost:
        summary = f"{program.name}: `{lost[0]}` was donated and did not alias: it is copied at each step"
        return failed(GATE, summary, [f"not aliased: `{name}`" for name in lost], _ADVICE, **data)
    if program.cache_copies and not _are_small(program.cache_copies):
        copies = f"{len(program.cache_copies)} time{'s' * (len(program.cache_copies) != 1)}"
        summary = f"{program.name} copies or rewrites an array of the cache's shape {copies}: {program.cache_copies[0]}"
        advice = _COMPILER_ADVICE if all(map(_is_compilers, program.cache_copies)) else _COPY_ADVICE
        return failed(GATE, summary, program.cache_copies, advice, **data)
    detail = [f"donated without effect: {names}"] if names else []
    detail += [f"too small to matter: {copy}" for copy in program.cache_copies]
    return passed(GATE, f"the cache of {units.byte_count(size)} is updated in place", detail, **data)


def _on_one_device(program: ProgramFacts, size: int) -> int:
    """Return what of a cache of ``size`` bytes one device has: a program and its aliases are those of one device."""
    part, whole = (int(program.extra.get(name) or 0) for name in ("cache_part_bytes", "cache_bytes"))
    return size * part // whole if part and whole else size


def _are_small(copies: Sequence[str]) -> bool:
    """Say whether all copies together move few bytes; a copy of unknown size is not small."""
    sizes = [copied_bytes(copy) for copy in copies]
    return None not in sizes and sum(size or 0 for size in sizes) < SMALL_COPIES_BYTES


def _is_compilers(copy: str) -> bool:
    """Say whether ``copy`` is a plain copy that no line of source asked for; a rewrite is work of somebody's."""
    return " copied in " in copy and _FROM not in copy


def _of_cache(donation: str, program: ProgramFacts) -> bool:
    """Say whether a lost donation (``state.k[0] f32[2,36,64]``) is a cache array: by shape, or by name without one."""
    path, _, shape = donation.partition(" ")
    if shape and program.cache_shapes:
        return shape in program.cache_shapes
    return _CACHE_NAME.match(path) is not None


def _missing(programs: Sequence[ProgramFacts], cache: float | None) -> tuple[str, str] | None:
    """Return what is missing for a verdict and how to get it."""
    if cache == 0:
        return "the engine has no cache", ""
    if cache is None:
        return "the size of the cache is not known", "Give the engine `facts` with `kv_cache_allocated_bytes`."
    if not programs or any(program.alias_bytes is None for program in programs):
        return "the compiled decode step was not read", "Give the engine `programs`, with the compiled decode step."
    return None


def _not_aliased(program: ProgramFacts, aliased: int, size: int, names: str) -> str:
    if not aliased and not names:
        return (
            f"{program.name} does not donate its cache: {units.byte_count(size)} are held twice and copied at each step"
        )
    share = f"{units.byte_count(aliased)} of the cache's {units.byte_count(size)} are updated in place"
    return f"{program.name}: only {share}; {names or 'an argument'} did not alias and is copied at each step"
