"""What warm-up hides from gate "shapes": one request compiles for nearly every token, as its state or position changes.

Once a request has compiled every length, the next one of the same length finds them all; a service, whose requests
differ, never gets there. Where all was compiled before anybody looked, the states themselves tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from qwenperf.schema.records import CaseRecord, CompileCause, CompileEvent, Finding

PHASE = "cold"

STATE_GROWS = "state-grows"
"""The code of a finding: ``data`` says in how many ``steps`` a state changed, and its last ``argument``, before, after.
"""

LEAST = 3
"""Fewer new shapes in one request may be buckets, or a prefill in chunks."""


UNEXPLAINED = "explanation unavailable"
"""JAX's own words (0.12) for a compile that it has no reason for: a static argument's value, as far as was seen."""

KINDS = ("shape", "static", "structure")
"""What can take another value at every token; dtype and weak type have a few values, and a new function tells none."""


def growing(case: CaseRecord) -> list[CompileEvent]:
    """Return the compiles of the function that met another value at least at every second token; empty if none did.

    A value is that of one argument on one line: one function for many layers compiles often, for the same few shapes.
    """
    workload = case.spec.get("workload")
    new_tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    if not isinstance(workload, Mapping) or not isinstance(new_tokens, int):
        return []
    first = workload.get("prompt_length") or 0
    values: dict[tuple[str, ...], dict[str, CompileEvent]] = defaultdict(dict)
    for event in case.evidence.compiles:
        for cause in event.causes if event.phase == PHASE else ():
            if cause.what in KINDS and (cause.what != "static" or _is_position(cause, first)):
                values[event.function, event.location, cause.argument, cause.what].setdefault(cause.after, event)
    most = max(values.values(), key=len, default={})
    if len(most) >= max(LEAST, (new_tokens - 1) // 2):
        return list(most.values())
    return _unexplained(case, new_tokens)


def _unexplained(case: CaseRecord, new_tokens: int) -> list[CompileEvent]:
    """Return the compiles of one function on one line, one a step after the first, that JAX cannot explain.

    JAX 0.12 no longer says that a static argument changed. What it can explain (a shape, a function never seen) is not
    counted here, so that helpers which compile for several shapes are not either.
    """
    found: dict[tuple[str, str], list[CompileEvent]] = defaultdict(list)
    for event in case.evidence.compiles:
        if event.phase == PHASE and not event.causes and UNEXPLAINED in event.explanation:
            found[event.function, event.location].append(event)
    most = max(found.values(), key=len, default=[])
    return most if len(most) >= max(LEAST, new_tokens - 2) else []


def growing_cause(events: Sequence[CompileEvent]) -> CompileCause:
    """Return why the last of ``events``, those of ``growing``, was compiled."""
    causes = (cause for kind in KINDS for cause in events[-1].causes if cause.what == kind)
    return next(causes, CompileCause(argument="", what="unexplained", before="", after=""))


def _is_position(cause: CompileCause, prompt_length: int) -> bool:
    """Say whether a static value can be the position of a decode step: the number of a layer starts at 0."""
    return cause.before.isdecimal() and cause.after.isdecimal() and int(cause.before) >= prompt_length - 1


def growing_state(case: CaseRecord) -> Finding | None:
    """Return the finding that says that the state changes its shape in each step, if there is one."""
    return next((finding for finding in case.findings if finding.code == STATE_GROWS), None)
