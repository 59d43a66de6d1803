"""Gate "carry-alias": a step updates the state that it hands on to itself in place.

For any function that is called again and again, such as a training step. What it donates must alias in the compiled
program, each argument; what it carries from call to call must be donated, or old and new state are held at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from qwenperf import units
from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.program.facts import copied_bytes
from qwenperf.schema.records import CaseRecord, Verdict

GATE = "carry-alias"
SMALL_BYTES = 4096
"""What carried arrays together may hold without being donated: a counter or a key costs nothing twice."""

_READ = "Hand over the jitted function itself, or a functools.partial or a method of it."
_DONATE = "Donate it, as in jax.jit(step, donate_argnames=...)."
_RETURN = "Return it with the shape, dtype and sharding that it came with, or do not donate it."


def judge(case: CaseRecord) -> Verdict:
    """Judge of the program of a step that all it donates aliases, and that all it carries is donated."""
    program = case.evidence.program
    if program is None or program.alias_bytes is None:
        return skipped(GATE, "the compiled step was not read", advice=_READ)
    size = int(program.extra.get("carried_bytes", 0))
    undonated = [str(one) for one in program.extra.get("undonated", ())]
    lost = program.unaliased_donations
    data = {"alias_bytes": program.alias_bytes, "carried_bytes": size, "unaliased": list(lost), "undonated": undonated}
    if lost:
        first = f"{program.name}: `{lost[0]}` was donated and did not alias{_more(lost)}"
        return failed(GATE, first, [f"not aliased: `{one}`" for one in lost], _RETURN, **data)
    undonated.sort(key=_bytes_of, reverse=True)
    held = sum(map(_bytes_of, undonated))
    if held >= SMALL_BYTES:
        first = f"{program.name} carries `{undonated[0]}` from call to call and does not donate it{_more(undonated)}"
        lines = [f"not donated: `{one}`" for one in undonated]
        return failed(GATE, f"{first}: {units.byte_count(held)} are held twice", lines, _DONATE, **data)
    detail = [f"too small to matter, not donated: `{one}`" for one in undonated]
    return passed(GATE, f"the carried state of {units.byte_count(size)} is updated in place", detail, **data)


def _more(names: Sequence[str]) -> str:
    return f", and {len(names) - 1} more" if len(names) > 1 else ""


def _bytes_of(name: str) -> int:
    """Return the size of an array by the shape behind its path; one of unknown size is not small."""
    size = copied_bytes(name.rpartition(" ")[2])
    return SMALL_BYTES if size is None else size
