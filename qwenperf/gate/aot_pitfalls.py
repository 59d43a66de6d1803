"""What XLA is known to do to a decode step on a CPU: widen all weights for one row, or slice them out of their stacks.

Told as findings without any budget, because both are the compiler's doing and look like slow code of one's own. Limits
on ``upcast_bytes`` and ``slice_bytes`` make failures of them. Reads records only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qwenperf import units
from qwenperf.gate.aot_words import alike, copies_text, where
from qwenperf.schema.analysis import AotCase, BufferCopy, ProgramAnalysis
from qwenperf.schema.records import Finding, Severity

_SHARE = 0.05
"""The least share of the weights that a program reads for which their copies are told. Chosen."""


@dataclass(frozen=True, kw_only=True)
class _Pitfall:
    """One kind of copies. ``total`` is the analysis's sum of them over the weights."""

    code: str
    kind: str
    total: str
    happens: str
    advice: str


_PITFALLS = (
    _Pitfall(
        code="weights-widened",
        kind="upcast",
        total="upcast_weight_bytes",
        happens="copied to a wider type",
        advice="XLA's CPU compiler does so to the weights of a product with one row in a narrow type: give it two rows "
        "(of our own engines: +rows=2), or weights in f32.",
    ),
    _Pitfall(
        code="weights-sliced",
        kind="slice",
        total="sliced_weight_bytes",
        happens="copied out of their stacks",
        advice="XLA's CPU compiler does so to what a scan over layers takes: write the layers out (of our own engines: "
        "+layers=unrolled).",
    ),
)

CODES = frozenset(one.code for one in _PITFALLS)


def pitfalls(case: AotCase) -> tuple[Finding, ...]:
    """Return a finding for each that a program for a CPU fell into; for other chips, where neither was seen, none."""
    if case.target.platform != "cpu" or case.program is None:
        return ()
    return tuple(_found(case, case.program))


def _found(case: AotCase, program: ProgramAnalysis) -> Iterator[Finding]:
    for one in _PITFALLS:
        size = program.extra.get(one.total)
        if not isinstance(size, int | float) or not size > _SHARE * (program.extra.get("weight_bytes") or 0):
            continue
        groups = alike(_of_weights(case, program, one.kind))
        named = f": {copies_text(groups[0])}" if groups else ""
        yield Finding(
            code=one.code,
            severity=Severity.WARNING,
            message=f"{where(case)}: {units.byte_count(size)} of weights are {one.happens} in each call{named}.",
            advice=one.advice,
            data={"id": case.id, "bytes": size},
        )


def _of_weights(case: AotCase, program: ProgramAnalysis, kind: str) -> list[BufferCopy]:
    """Return the copies of one kind of what is no state: the caller keeps it for itself."""
    donated = {one.path for one in case.arguments if one.donated}
    return [copy for copy in program.copies if copy.kind == kind and copy.buffer and copy.buffer not in donated]
