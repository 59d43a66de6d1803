"""Where an engine leaves uncached greedy decoding, and whether that is a tie or a bug. Pure numpy.

One uncached forward over the prompt and the engine's own tokens is enough: as long as both agree, uncached
greedy decoding would have fed the same tokens, so by induction the first position whose uncached argmax is another
token is exactly where uncached decoding would have diverged. Behind that position both sides are still fed the same
tokens, the engine's, so that every later token and its logits are compared too: a tie hides no bug behind it.

Rounding. Both sides compute each logit in another order of additions. With eps = 2^-23 (f32), 2^-10 (TF32) or 2^-8
(bf16), the spacing of numbers in [1, 2), two correct logits differ by at most about

    K * eps * max|logit|,     K = 512 for f32, 8 for TF32 and bf16

with the largest |logit| of that row and step: each is held to its own scale, so that no other row or step, however
large, hides an error. f32: sums over up to thousands of terms through tens of layers, all in f32, so errors add up
over many roundings. bf16: sums are kept in f32 and only what passes between operations is rounded, so few count; TF32
the same for what goes into a product. Which of them holds is the device's affair (``lab.rounding``), not the array's.
A token differs by a near-tie when the uncached logits of the two tokens are no further apart than that.

A part of the vocabulary that is masked (-inf, -1e9, the dtype's lowest number) is no logit: it gives no scale, and
where both sides mask it there is nothing to compare. NaN, +inf, and -inf on one side only are a divergence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qwenperf.errors import MeasurementError
from qwenperf.schema.records import Divergence

REFERENCE = "uncached"
NOT_OWN_CHOICE = "not_own_choice"
"""The key in ``extra`` of a token that the engine's own logits do not choose."""
_ROUNDING = {"f32": 512 * 2.0**-23, "tf32": 8 * 2.0**-10, "bf16": 8 * 2.0**-8}
_MASKED, _MASKED_TIMES = -1e3, -100.0
"""A masked logit is at most -1000, and at most -100 times the largest of what is above that."""


@dataclass(frozen=True, kw_only=True)
class Logits:
    """Logits [B, N, V] before each generated token. ``engine`` is ``None`` where it gives no logits."""

    uncached: np.ndarray
    engine: np.ndarray | None = None


def relative_rounding(dtype: str) -> float:
    """Return how far two correct logits may be apart, as a share of the largest |logit|; by the dtype of products."""
    return _ROUNDING[dtype]


def compare(generated_BN: np.ndarray, logits: Logits, dtype: str) -> Divergence:
    """Compare tokens and logits of an engine with uncached ones, for the same sequence.

    ``position`` counts generated tokens from 0. Every difference is held to the rounding, in each row and behind each
    tie: the first that is none is reported, and the first of all only where all are ties. Logits that are not finite
    are a divergence: the largest of them says nothing. They, and then a masked token, are reported before any other
    difference, wherever they are: no bound that excuses another token excuses them.

    Raises:
      MeasurementError: a token that the logits do not know.
    """
    _check_vocabulary(generated_BN, logits.uncached.shape[-1])
    expected_BN = logits.uncached.argmax(-1)
    finite_BN = _finite(logits)
    different_BN = ~finite_BN | (expected_BN != generated_BN)
    scale_BN = _scale(logits.uncached)
    teacher = _teacher_forced(logits, scale_BN, dtype)
    own = _not_own_choice(generated_BN, logits, dtype)
    if not different_BN.any():
        return Divergence(equal=True, reference=REFERENCE, extra=own, **teacher)
    tolerance_BN = relative_rounding(dtype) * scale_BN
    beyond_BN = different_BN & ~(finite_BN & (_margins(logits.uncached, expected_BN, generated_BN) <= tolerance_BN))
    masked_BN = finite_BN & np.take_along_axis(_masked(logits.uncached), generated_BN[..., None], axis=-1)[..., 0]
    row, position = first_cell(next(one for one in (~finite_BN, masked_BN, beyond_BN, different_BN) if one.any()))
    expected, actual = int(expected_BN[row, position]), int(generated_BN[row, position])
    reference_margin, engine_margin = (
        None if side is None else _margin(side[row, position], expected, actual)
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
            **({} if finite_BN[row, position] else {"not_finite": _told(logits, row, position)}),
            **({"masked": True} if masked_BN[row, position] else {}),
        },
        **teacher,
    )


def _not_own_choice(generated_BN: np.ndarray, logits: Logits, dtype: str) -> dict[str, Any]:
    """Return where a token is not what the engine's own logits, fed the same tokens, choose; rounding left aside."""
    if logits.engine is None or not _finite(logits).all():
        return {}
    margins_BN = _margins(logits.engine, logits.engine.argmax(-1), generated_BN)
    beyond_BN = ~(margins_BN <= relative_rounding(dtype) * _scale(logits.engine))
    if not beyond_BN.any():
        return {}
    row, position = first_cell(beyond_BN)
    return {NOT_OWN_CHOICE: {"row": row, "position": position, "count": int(beyond_BN.sum())}}


def first_cell(found_BN: np.ndarray) -> tuple[int, int]:
    """Return row and position of the earliest cell that is true; of several rows the first."""
    position = int(found_BN.any(0).argmax())
    return int(found_BN[:, position].argmax()), position


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


def _innocence(found: Divergence) -> tuple[bool, bool, int]:
    extra = found.extra
    return not extra.get("not_finite"), not extra.get("masked"), 2 * found.equal + found.near_tie


def equal_share(divergence: Divergence, new_tokens: int) -> float:
    """Return the share of tokens before the first divergence of any row."""
    equal_tokens = divergence.extra.get("equal_tokens", divergence.position)
    return 1.0 if equal_tokens is None else float(equal_tokens) / new_tokens


def _check_vocabulary(generated_BN: np.ndarray, size: int) -> None:
    outside_BN = (generated_BN < 0) | (generated_BN >= size)
    if outside_BN.any():
        row, position = first_cell(outside_BN)
        token = int(generated_BN[row, position])
        raise MeasurementError(
            f"the engine generated token {token} (row {row}, token {position}), outside the vocabulary of {size}.",
            advice=f"Return tokens from 0 to {size - 1}, the last axis of the uncached logits.",
        )


def _finite(logits: Logits) -> np.ndarray:
    """Return [B, N]: whether all logits are finite, those apart that are -inf on both sides; one at least must be."""
    usable_BN = _usable(logits.uncached)
    if logits.engine is None:
        return usable_BN
    same_mask_BN = (np.isneginf(logits.uncached) == np.isneginf(logits.engine)).all(-1)
    finite_BN: np.ndarray = usable_BN & _usable(logits.engine) & same_mask_BN
    return finite_BN


def _usable(logits: np.ndarray) -> np.ndarray:
    """Return whether there is a finite logit, and no NaN and no +inf; -inf is a mask."""
    finite = np.isfinite(logits)
    usable: np.ndarray = (finite | (logits == -np.inf)).all(-1) & finite.any(-1)
    return usable


def _told(logits: Logits, row: int, position: int) -> str:
    """Say which logits of a cell are not finite."""
    cells = {REFERENCE: logits.uncached[row, position]}
    if logits.engine is not None:
        cells["the engine"] = logits.engine[row, position]
    for side, cell_V in cells.items():
        if np.isnan(cell_V).any() or np.isposinf(cell_V).any():
            return f"{side} has {'NaN' if np.isnan(cell_V).any() else '+inf'} among its logits"
        if not np.isfinite(cell_V).any():
            return f"{side} has -inf for the whole vocabulary"
    masked_V = [np.equal(cell_V, -np.inf) for cell_V in cells.values()]
    token = int((masked_V[0] != masked_V[-1]).argmax())
    return f"the logit of {token} is -inf for {REFERENCE if masked_V[0][token] else 'the engine'} only"


def _teacher_forced(logits: Logits, scale_BN: np.ndarray, dtype: str) -> dict[str, Any]:
    """Return the largest error of a logit, relative to the largest |logit| of its row and step, and its step."""
    if logits.engine is None or not _finite(logits).all():
        return {}
    masked = _masked(logits.uncached) & _masked(logits.engine)
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


def _margins(logits_BNV: np.ndarray, expected_BN: np.ndarray, actual_BN: np.ndarray) -> np.ndarray:
    """Return [B, N]: how much larger the expected token's logit is than the actual one's."""
    pair_BN2 = np.take_along_axis(logits_BNV, np.stack([expected_BN, actual_BN], axis=-1), axis=-1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        margins_BN: np.ndarray = pair_BN2[..., 0] - pair_BN2[..., 1]
    return margins_BN


def _margin(logits_V: np.ndarray, expected: int, actual: int) -> float | None:
    margin = float(logits_V[expected]) - float(logits_V[actual])
    return margin if np.isfinite(margin) else None


def _masked(logits: np.ndarray) -> np.ndarray:
    """Return which logits are masks and no scores; none where a row is wholly that low."""
    low = logits <= _MASKED
    rest = np.where(low | ~np.isfinite(logits), 0.0, np.abs(logits)).max(-1, keepdims=True)
    masked: np.ndarray = low & (logits <= _MASKED_TIMES * rest) & ~low.all(-1, keepdims=True)
    return masked | np.isneginf(logits)


def _scale(logits: np.ndarray) -> np.ndarray:
    """Return [B, N]: the largest finite |logit| that is no mask; 0 where there is none."""
    scale_BN: np.ndarray = np.where(np.isfinite(logits) & ~_masked(logits), np.abs(logits), 0.0).max(-1)
    return scale_BN.astype(np.float64)
