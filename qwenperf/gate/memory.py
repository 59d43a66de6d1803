"""Gate "cache-alias": the decode step updates the KV cache in place.

Donating an argument is a wish; whether the compiler granted it stands in the program: bytes aliased between input and
output. A copy of the cache within the step costs as much as reading it, at every token.
"""

from __future__ import annotations

from qwenperf import units
from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.schema.records import CaseRecord, ProgramFacts, Verdict

GATE = "cache-alias"

_ADVICE = (
    "Donate the cache (donate_argnames), and return it with the shape, dtype, sharding and order that it came with."
)
_COPY_ADVICE = "Update the cache with dynamic_update_slice, and do not read the old one after it was written."


def judge(case: CaseRecord) -> Verdict:
    """Judge that at least the cache's bytes are aliased, and that no array of the cache's shape is copied."""
    program, cache = case.evidence.program, case.metrics.get("kv_cache_allocated_bytes")
    missing = _missing(program, None if cache is None else cache.value)
    if missing:
        return skipped(GATE, missing[0], advice=missing[1])
    assert program is not None
    assert cache is not None
    aliased, size = program.alias_bytes or 0, int(cache.value)
    names = ", ".join(f"`{name}`" for name in program.unaliased_donations)
    data = {"alias_bytes": aliased, "cache_bytes": size, "unaliased": list(program.unaliased_donations)}
    if aliased < size:
        return failed(GATE, _not_aliased(program, aliased, size, names), program.cache_copies, _ADVICE, **data)
    if program.cache_copies:
        copies = f"{len(program.cache_copies)} time{'s' * (len(program.cache_copies) != 1)}"
        summary = f"{program.name} copies an array of the cache's shape {copies}: {program.cache_copies[0]}"
        return failed(GATE, summary, program.cache_copies, _COPY_ADVICE, **data)
    detail = [f"donated without effect: {names}"] if names else []
    return passed(GATE, f"the cache of {units.byte_count(size)} is updated in place", detail, **data)


def _missing(program: ProgramFacts | None, cache: float | None) -> tuple[str, str] | None:
    """Return what is missing for a verdict and how to get it."""
    if cache == 0:
        return "the engine has no cache", ""
    if cache is None:
        return "the size of the cache is not known", "Give the engine `facts` with `kv_cache_allocated_bytes`."
    if program is None or program.alias_bytes is None:
        return "the compiled decode step was not read", "Give the engine `programs`, with the compiled decode step."
    return None


def _not_aliased(program: ProgramFacts, aliased: int, size: int, names: str) -> str:
    if not aliased and not names:
        return (
            f"{program.name} does not donate its cache: {units.byte_count(size)} are held twice and copied at each step"
        )
    share = f"{units.byte_count(aliased)} of the cache's {units.byte_count(size)} are updated in place"
    return f"{program.name}: only {share}; {names or 'an argument'} did not alias and is copied at each step"
