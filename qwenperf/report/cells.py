"""Cells that several tables have: an engine's name, its compiles, and what its tokens are like."""

from __future__ import annotations

from qwenperf.report.speedup import value
from qwenperf.schema.records import CaseRecord


def rung(case: CaseRecord) -> str:
    """Return the engine's name."""
    return str(case.spec.get("engine", case.id))


def compiles(case: CaseRecord) -> str:
    """Return compiles in the cold and in the steady phase, ``20/0``."""
    counts = [value(case, name) for name in ("compiles_cold", "compiles_steady")]
    return "-" if counts == [None, None] else "/".join("-" if count is None else f"{count:.0f}" for count in counts)


def tokens(case: CaseRecord) -> str:
    """Say whether the tokens equal uncached ones: ``equal``, ``near-tie`` or ``differ``; or how far logits are off."""
    divergence = case.evidence.divergence
    if divergence is None:
        return "-"
    if "approximate" in case.spec and divergence.max_logit_error is not None:
        return f"off {divergence.max_logit_error:.0e}"
    return "equal" if divergence.equal else "near-tie" if divergence.near_tie else "differ"
