"""Gate "tokens": cached and uncached greedy decoding give the same tokens, and the same logits.

Two tokens whose logits differ by less than the dtype's rounding may swap. That is only believed when the logits of
every step, fed the same tokens, agree: so a tie neither fails a correct engine nor hides a bug behind it.

An engine with approximate settings says so in its case (``approximate``), with the largest error of a logit that they
may cost. Its tokens may differ; its logits are held to that bound, and its tokens to its own logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.gate.verdict import failed, inconclusive, passed, skipped
from qwenperf.schema.records import CaseRecord, Divergence, Verdict

GATE = "tokens"

_NO_LOGITS = "Compare with `uncached_logits`: without logits nobody can tell a near tie from a bug."
_BUG = "Look at positions and mask of the decode step first: an offset of one looks like this."

_TOO_FAR = "Look at scales and at the axis that they belong to before calling this rounding."
_MASKED = "Mask the same part of the vocabulary in every step, before the token is chosen."
_NOT_FINITE = (
    "A row that may attend to nothing gives NaN: look at the mask, then at the dtype's range, then at what an earlier "
    "request left in a cache that is used again, where a weight of 0 hides no NaN."
)


def judge(case: CaseRecord) -> Verdict:
    """Judge the divergence from uncached greedy decoding, and the teacher-forced logits."""
    seen = case.evidence.divergence
    if seen is None:
        advice = "Give the engine `uncached_logits`, or hand in a reference, so that there is a truth to compare with."
        return skipped(GATE, "tokens were not compared with uncached decoding", advice=advice)
    short = _too_short(case)
    if short:
        return failed(GATE, short, advice="An engine that stops early has not done the work that was timed.")
    if seen.extra.get("not_finite"):
        return _not_finite(case, seen)
    stated = case.spec.get("approximate")
    if isinstance(stated, Mapping):
        return _approximate(case, seen, stated)
    return _equal(case, seen) if seen.equal else _different(case, seen)


def _approximate(case: CaseRecord, seen: Divergence, stated: Mapping[str, Any]) -> Verdict:
    """Judge an engine whose settings cost exactness: by its logits, and by whether its tokens are its own choice."""
    who, bound = " and ".join(stated["settings"]), float(stated["max_logit_error"])
    if seen.extra.get("masked"):
        return failed(GATE, f"{_where(case, seen)}, which {seen.reference} masks", advice=_MASKED, **_data(seen))
    own = seen.extra.get("not_own_choice")
    if own:
        row = f"row {own['row']}, " if _rows(case) != 1 else ""
        form = "" if own.get("form", "request") == "request" else f" of the {own['form']}"
        summary = f"{row}token {own['position']}{form} is not what the engine's own logits choose"
        return failed(GATE, f"{summary}: a bug, and no cost of {who}", advice=_BUG, **_data(seen))
    error = seen.max_logit_error
    if error is None or seen.logit_tolerance is None:
        advice = "Give the engine `prefill` and `decode_step`, so that logits can be compared at every step."
        return inconclusive(GATE, f"no logits of the steps tell what {who} costs", advice=advice, **_data(seen))
    limit = bound + seen.logit_tolerance
    told = f"logits differ by {error:.3g} of the largest, {{}} {limit:.3g}, the bound stated for {who}"
    if error > limit:
        return failed(GATE, told.format("beyond"), advice=_TOO_FAR, **_data(seen))
    alike = "all tokens are those of" if seen.equal else f"token {seen.position} is the first that is not that of"
    return passed(GATE, told.format("within"), [f"{alike} {seen.reference}"], **_data(seen))


def logits_agree(seen: Divergence) -> bool | None:
    """Say whether the teacher-forced logits are within tolerance; ``None`` when they were not compared."""
    if seen.max_logit_error is None or seen.logit_tolerance is None:
        return None
    return seen.max_logit_error <= seen.logit_tolerance


def _equal(case: CaseRecord, seen: Divergence) -> Verdict:
    if logits_agree(seen) is False:
        summary = f"the tokens are equal, but {_logits(seen)}"
        return failed(GATE, summary, advice=_BUG, **_data(seen))
    count = f"all {_generated(case)} tokens equal" if _generated(case) else "all tokens equal"
    return passed(GATE, f"{count} to {seen.reference}", [_logits(seen)], **_data(seen))


def _not_finite(case: CaseRecord, seen: Divergence) -> Verdict:
    """Tell which logits, and no choice of tokens: the argmax of such logits may be the same by accident."""
    found = seen.extra["not_finite"]
    told = found if isinstance(found, str) else "the logits there are not finite"
    return failed(GATE, f"{_place(case, seen)}: {told}", advice=_NOT_FINITE, **_data(seen))


def _different(case: CaseRecord, seen: Divergence) -> Verdict:
    where = _where(case, seen)
    detail = [*_margins(seen), _logits(seen)]
    agree = logits_agree(seen)
    if seen.extra.get("masked"):
        return failed(GATE, f"{where}, which {seen.reference} masks", detail, advice=_MASKED, **_data(seen))
    if seen.reference_margin is None:
        return failed(GATE, f"{where}; {seen.reference} gives no logits", advice=_NO_LOGITS, **_data(seen))
    if not seen.near_tie:
        tie = f"a near tie would be within {seen.tolerance:.3g}"
        return failed(GATE, f"{where}: a bug, not rounding ({tie})", detail, advice=_BUG, **_data(seen))
    if agree is None:
        summary = f"{where}: a near tie, but no logits of the steps tell rounding from a bug"
        advice = "Give the engine `prefill` and `decode_step`, so that logits can be compared at every step."
        return inconclusive(GATE, summary, detail, advice=advice, **_data(seen))
    if agree:
        return passed(GATE, f"{where}: a near tie within rounding; logits agree at every step", detail, **_data(seen))
    summary = f"{where}: a near tie, but a bug is behind it: {_logits(seen)}"
    return failed(GATE, summary, detail, advice=_BUG, **_data(seen))


def _where(case: CaseRecord, seen: Divergence) -> str:
    chose = f"{seen.reference} chose {_token(seen.expected_token)}, the engine {_token(seen.actual_token)}"
    return f"{_place(case, seen)} differs: {chose}"


def _place(case: CaseRecord, seen: Divergence) -> str:
    row = f"row {seen.row}, " if seen.row is not None and _rows(case) != 1 else ""
    form = f" of the {seen.extra['form']}" if seen.extra.get("form", "request") != "request" else ""
    return f"{row}token {'?' if seen.position is None else seen.position}{form}"


def _margins(seen: Divergence) -> list[str]:
    sides = ((seen.reference, seen.reference_margin), ("the engine", seen.engine_margin))
    known = [f"{margin:+.3g} for {side}" for side, margin in sides if margin is not None]
    preferred = f"logit of {_token(seen.expected_token)} over {_token(seen.actual_token)}"
    return [f"{preferred}: {', '.join(known)}; rounding {seen.tolerance:.3g}"] if known else []


def _logits(seen: Divergence) -> str:
    agree = logits_agree(seen)
    if agree is None:
        return "logits of the steps were not compared: the engine does not give them"
    step = "" if seen.worst_step is None else f" at step {seen.worst_step}"
    relation = "within" if agree else "beyond"
    told = f"fed the same tokens, logits differ by {seen.max_logit_error:.3g} of the largest{step}"
    return f"{told}, {relation} the tolerance of {seen.logit_tolerance:.3g}"


def _too_short(case: CaseRecord) -> str:
    """Say that fewer tokens were generated than the workload asks for."""
    tokens, workload = case.evidence.tokens, case.spec.get("workload")
    asked = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    asked = case.spec.get("measured_tokens") or asked
    if tokens is None or not isinstance(asked, int):
        return ""
    rows = [len(row) for row in tokens.generated]
    return f"{min(rows, default=0)} of {asked} tokens were generated" if min(rows, default=0) < asked else ""


def _rows(case: CaseRecord) -> int | None:
    return len(case.evidence.tokens.generated) if case.evidence.tokens else None


def _generated(case: CaseRecord) -> int:
    return sum(len(row) for row in case.evidence.tokens.generated) if case.evidence.tokens else 0


def _token(token: int | None) -> str:
    return "?" if token is None else str(token)


def _data(seen: Divergence) -> dict[str, Any]:
    return {"row": seen.row, "position": seen.position, "near_tie": seen.near_tie, "logits_agree": logits_agree(seen)}
