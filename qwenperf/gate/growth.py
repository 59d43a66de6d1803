"""What warm-up hides from gate "shapes": a state that grows, so that one request compiles for nearly every token.

Once a request has compiled every length, the next one of the same length finds them all; a service, whose requests
differ, never gets there. Where all was compiled before anybody looked, the states themselves tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from qwenperf.schema.records import CaseRecord, CompileEvent, Finding

PHASE = "cold"

STATE_GROWS = "state-grows"
"""The code of a finding: ``data`` says in how many ``steps`` a state changed, and its last ``argument``, before, after.
"""

LEAST = 3
"""Fewer new shapes in one request may be buckets, or a prefill in chunks."""


def growing(case: CaseRecord) -> list[CompileEvent]:
    """Return the compiles of the function that met another shape at least at every second token; empty if none did."""
    workload = case.spec.get("workload")
    new_tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    if not isinstance(new_tokens, int):
        return []
    by_function: dict[str, list[CompileEvent]] = defaultdict(list)
    for event in case.evidence.compiles:
        if event.phase == PHASE and any(cause.what == "shape" for cause in event.causes):
            by_function[event.function].append(event)
    most = max(by_function.values(), key=len, default=[])
    return most if len(most) >= max(LEAST, (new_tokens - 1) // 2) else []


def growing_state(case: CaseRecord) -> Finding | None:
    """Return the finding that says that the state changes its shape in each step, if there is one."""
    return next((finding for finding in case.findings if finding.code == STATE_GROWS), None)
