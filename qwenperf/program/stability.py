"""What two compilations of one program do not agree in: such a number says nothing of a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from qwenperf.schema.analysis import AotCase, Fit, ProgramAnalysis
from qwenperf.schema.records import Status

_NOT_COMPARED = ("name", "unstable", "extra")
_TOTALS: Mapping[str, str] = {
    **dict.fromkeys(("copies_found", "copies_by_kind", "copied_bytes", "copied_weight_bytes"), "copies"),
    **dict.fromkeys(("upcast_weight_bytes", "sliced_weight_bytes", "relayout_weight_bytes"), "copies"),
    **dict.fromkeys(("collective_bytes", "collectives_per_layer"), "collectives"),
    **dict.fromkeys(("weight_bytes", "state_bytes", "unread_weight_bytes", "weight_passes"), "hbm_bytes"),
    "other_operations": "flops",
    "operations_without_cycles": "estimated_cycles",
    "categories": "operations",
}
"""Totals in ``extra``, and the field that gates read them for."""


def differing(first: ProgramAnalysis, second: ProgramAnalysis) -> tuple[str, ...]:
    """Return the fields in which two analyses of one program differ, in their order."""
    found = set(_differing(first, second))
    return tuple(field.name for field in fields(ProgramAnalysis) if field.name in found)


def _differing(first: ProgramAnalysis, second: ProgramAnalysis) -> Iterator[str]:
    for field in fields(ProgramAnalysis):
        if field.name not in _NOT_COMPARED and getattr(first, field.name) != getattr(second, field.name):
            yield field.name
    for total, name in _TOTALS.items():
        if first.extra.get(total) != second.extra.get(total):
            yield name


def marked(first: AotCase, again: AotCase) -> AotCase:
    """Return the record of a program that was compiled ``again``: ``unstable`` has all that ever differed.

    The numbers are those of the latest compilation; whether it fits is told of the larger one. ``extra.compilations``
    counts them. A program that is refused the second time is a failed case that says so.
    """
    compilations = {"compilations": int(first.extra.get("compilations", 1)) + 1}
    if again.status is not Status.MEASURED or again.program is None or first.program is None:
        error = f"compiled before, and now not: {again.error}"
        return replace(again, error=error, extra={**again.extra, **compilations})
    known = {*first.program.unstable, *again.program.unstable, *differing(first.program, again.program)}
    unstable = tuple(field.name for field in fields(ProgramAnalysis) if field.name in known)
    return replace(
        again,
        program=replace(again.program, unstable=unstable),
        fit=_larger(first.fit, again.fit),
        extra={**again.extra, **compilations},
    )


def _larger(first: Fit | None, again: Fit | None) -> Fit | None:
    if first is None or again is None:
        return again
    return first if first.peak_bytes > again.peak_bytes else again
