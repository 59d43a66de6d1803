"""Where an engine leaves uncached greedy decoding, and whether that is a tie or a bug. Pure numpy.

One uncached forward over the prompt and the engine's own tokens is enough: as long as both agree, uncached
greedy decoding would have fed the same tokens, so by induction the first position whose uncached argmax is another
token is exactly where uncached decoding would have diverged. Behind that position both sides are still fed the same
tokens, the engine's, so that every later token and its logits are compared too: a tie hides no bug behind it.

How far two correct logits may be apart, and which of them are none, is said in ``logits``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qwenperf.lab.logits import (
    REFERENCE,
    Logits,
    check_vocabulary,
    finite_cells,
    first_cell,
    margin_of,
    margins_of,
    masked_logits,
    not_finite_words,
    relative_rounding,
    scale_of,
)
from qwenperf.schema.records import Divergence

NOT_OWN_CHOICE = "not_own_choice"
"""The key in ``extra`` of a token that the engine's own logits do not choose."""


def compare(generated_BN: np.ndarray, logits: Logits, dtype: str) -> Divergence:
    """Compare tokens and logits of an engine with uncached ones, for the same sequence.

    ``position`` counts generated tokens from 0. Every difference is held to the rounding, in each row and behind each
    tie: the first that is none is reported, and the first of all only where all are ties. Logits that are not finite
    are a divergence: the largest of them says nothing. They, and then a masked token, are reported before any other
    difference, wherever they are: no bound that excuses another token excuses them.

    Raises:
      MeasurementError: a token that the logits do not know.
    """
    check_vocabulary(generated_BN, logits.uncached.shape[-1])
    expected_BN = logits.uncached.argmax(-1)
    finite_BN = finite_cells(logits)
    different_BN = ~finite_BN | (expected_BN != generated_BN)
    scale_BN = scale_of(logits.uncached)
    teacher = _teacher_forced(logits, scale_BN, dtype)
    own = _not_own_choice(generated_BN, logits, dtype)
    if not different_BN.any():
        return Divergence(equal=True, reference=REFERENCE, extra=own, **teacher)
    tolerance_BN = relative_rounding(dtype) * scale_BN
    beyond_BN = different_BN & ~(finite_BN & (margins_of(logits.uncached, expected_BN, generated_BN) <= tolerance_BN))
    masked_BN = finite_BN & np.take_along_axis(masked_logits(logits.uncached), generated_BN[..., None], axis=-1)[..., 0]
    row, position = first_cell(next(one for one in (~finite_BN, masked_BN, beyond_BN, different_BN) if one.any()))
    expected, actual = int(expected_BN[row, position]), int(generated_BN[row, position])
    reference_margin, engine_margin = (
        None if side is None else margin_of(side[row, position], expected, actual)
        for side in (logits.uncached, logits.engine)
    )
    return Divergence(
        equal=False,
        reference=REFERENCE,
        row=row,
        position=position,
        expected_token=expected,
        actual_token=actual,
        reference_margin=reference_margin,
        engine_margin=engine_margin,
        near_tie=not beyond_BN.any(),
        tolerance=float(tolerance_BN[row, position]),
        extra={
            "equal_tokens": first_cell(different_BN)[1],
            "differences": int(different_BN.sum()),
            "beyond_rounding": int(beyond_BN.sum()),
            **own,
            **({} if finite_BN[row, position] else {"not_finite": not_finite_words(logits, row, position)}),
            **({"masked": True} if masked_BN[row, position] else {}),
        },
        **teacher,
    )


def _not_own_choice(generated_BN: np.ndarray, logits: Logits, dtype: str) -> dict[str, Any]:
    """Return where a token is not what the engine's own logits, fed the same tokens, choose; rounding left aside."""
    if logits.engine is None or not finite_cells(logits).all():
        return {}
    margins_BN = margins_of(logits.engine, logits.engine.argmax(-1), generated_BN)
    beyond_BN = ~(margins_BN <= relative_rounding(dtype) * scale_of(logits.engine))
    if not beyond_BN.any():
        return {}
    row, position = first_cell(beyond_BN)
    return {NOT_OWN_CHOICE: {"row": row, "position": position, "count": int(beyond_BN.sum())}}


def worse(one: Divergence, other: Divergence) -> Divergence:
    """Return what says more against an engine, with all that the less bad of both adds; ``one`` of two that are alike.

    Logits that are no numbers come first, then a masked token, another bug, a tie, equality. Where settings excuse
    other tokens, the verdict hangs on the rest: the larger error of a logit, and a token that is not the engine's
    choice.
    """
    both = sorted((one, other), key=_innocence)
    worst, larger = (
        both[0],
        max(both, key=lambda found: -1.0 if found.max_logit_error is None else found.max_logit_error),
    )
    equal_tokens = [found.extra["equal_tokens"] for found in both if "equal_tokens" in found.extra]
    stray = [found.extra[NOT_OWN_CHOICE] for found in both if NOT_OWN_CHOICE in found.extra]
    return replace(
        worst,
        max_logit_error=larger.max_logit_error,
        logit_tolerance=larger.logit_tolerance,
        worst_step=larger.worst_step,
        extra={
            **worst.extra,
            **({"equal_tokens": min(equal_tokens)} if equal_tokens else {}),
            **({NOT_OWN_CHOICE: stray[0]} if stray else {}),
        },
    )


def of_rows(found: Sequence[Divergence]) -> Divergence:
    """Return what ``compare`` says of a batch, from what it said of each of its rows alone, in their order."""
    if len(found) == 1:
        return found[0]
    finite = all("not_finite" not in one.extra for one in found)
    larger = max(found, key=lambda one: -1.0 if one.max_logit_error is None else one.max_logit_error)
    logits: dict[str, Any] = {"max_logit_error": None, "logit_tolerance": None, "worst_step": None}
    if finite:
        logits = {name: getattr(larger, name) for name in logits}
    own = _own_of_rows(found) if finite else {}
    different = [row for row, one in enumerate(found) if not one.equal]
    if not different:
        return replace(found[0], extra=own, **logits)
    row = min(different, key=lambda row: (*_innocence(found[row]), found[row].position or 0))
    counts = {name: sum(found[one].extra[name] for one in different) for name in ("differences", "beyond_rounding")}
    equal_tokens = min(found[one].extra["equal_tokens"] for one in different)
    told = {name: value for name, value in found[row].extra.items() if name in ("not_finite", "masked")}
    return replace(found[row], row=row, extra={"equal_tokens": equal_tokens, **counts, **own, **told}, **logits)


def _own_of_rows(found: Sequence[Divergence]) -> dict[str, Any]:
    """Return the first token of a batch that is not its engine's choice, and how many there are."""
    strays = {row: one.extra[NOT_OWN_CHOICE] for row, one in enumerate(found) if NOT_OWN_CHOICE in one.extra}
    if not strays:
        return {}
    row = min(strays, key=lambda row: strays[row]["position"])
    count = sum(stray["count"] for stray in strays.values())
    return {NOT_OWN_CHOICE: {"row": row, "position": strays[row]["position"], "count": count}}


def _innocence(found: Divergence) -> tuple[bool, bool, int]:
    extra = found.extra
    return not extra.get("not_finite"), not extra.get("masked"), 2 * found.equal + found.near_tie


def equal_share(divergence: Divergence, new_tokens: int) -> float:
    """Return the share of tokens before the first divergence of any row."""
    equal_tokens = divergence.extra.get("equal_tokens", divergence.position)
    return 1.0 if equal_tokens is None else float(equal_tokens) / new_tokens


def _teacher_forced(logits: Logits, scale_BN: np.ndarray, dtype: str) -> dict[str, Any]:
    """Return the largest error of a logit, relative to the largest |logit| of its row and step, and its step."""
    if logits.engine is None or not finite_cells(logits).all():
        return {}
    masked = masked_logits(logits.uncached) & masked_logits(logits.engine)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(logits.engine - logits.uncached)
    error_BN = np.minimum(np.where(masked, 0, error).max(-1), np.finfo(np.float32).max).astype(np.float64)
    # Where the truth is all zeros, any error is as large as what it is held to.
    relative_BN = error_BN / np.where(scale_BN > 0, scale_BN, np.where(error_BN > 0, error_BN, 1.0))
    return {
        "max_logit_error": float(relative_BN.max()),
        "logit_tolerance": relative_rounding(dtype),
        "worst_step": int(relative_BN.max(0).argmax()),
    }
