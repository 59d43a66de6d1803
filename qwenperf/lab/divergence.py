"""Where an engine leaves uncached greedy decoding, and whether that is a tie or a bug. Pure numpy.

One uncached forward over the prompt and the engine's own tokens is enough: as long as both agree, uncached
greedy decoding would have fed the same tokens, so by induction the first position whose uncached argmax is another
token is exactly where uncached decoding would have diverged. Behind that position both sides are still fed the same
tokens, the engine's, so that every later token and its logits are compared too: a tie hides no bug behind it.

Rounding. Both sides compute each logit in another order of additions. With eps = 2^-23 (f32) or 2^-8 (bf16), the
spacing of numbers in [1, 2), two correct logits differ by at most about

    K * eps * max|logit|,     K = 512 for f32, 8 for bf16

f32: sums over up to thousands of terms through tens of layers, all in f32, so errors add up over many
roundings. bf16: sums are kept in f32 and only what passes between operations is rounded, so few roundings count.
A token differs by a near-tie when the uncached logits of the two tokens are no further apart than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qwenperf.schema.records import Divergence

REFERENCE = "uncached"
_ROUNDING = {"f32": 512 * 2.0**-23, "bf16": 8 * 2.0**-8}


@dataclass(frozen=True, kw_only=True)
class Logits:
    """Logits [B, N, V] before each generated token. ``engine`` is ``None`` where it gives no logits."""

    uncached: np.ndarray
    engine: np.ndarray | None = None


def relative_rounding(dtype: str) -> float:
    """Return how far two correct logits may be apart, as a share of the largest |logit|."""
    return _ROUNDING[dtype]


def compare(generated_BN: np.ndarray, logits: Logits, dtype: str) -> Divergence:
    """Compare tokens and logits of an engine with uncached ones, for the same sequence.

    ``position`` counts generated tokens from 0. Every difference is held to the rounding, in each row and behind each
    tie: the first that is none is reported, and the first of all only where all are ties. Logits that are not finite
    are a divergence: the largest of them says nothing.
    """
    expected_BN = logits.uncached.argmax(-1)
    finite_BN = _finite(logits)
    different_BN = ~finite_BN | (expected_BN != generated_BN)
    teacher = _teacher_forced(logits, dtype)
    if not different_BN.any():
        return Divergence(equal=True, reference=REFERENCE, **teacher)
    tolerance_BN = relative_rounding(dtype) * _largest(logits.uncached, axis=-1)
    beyond_BN = different_BN & ~(finite_BN & (_margins(logits.uncached, expected_BN, generated_BN) <= tolerance_BN))
    row, position = first_cell(beyond_BN if beyond_BN.any() else different_BN)
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
            **({} if finite_BN[row, position] else {"not_finite": True}),
        },
        **teacher,
    )


def first_cell(found_BN: np.ndarray) -> tuple[int, int]:
    """Return row and position of the earliest cell that is true; of several rows the first."""
    position = int(found_BN.any(0).argmax())
    return int(found_BN[:, position].argmax()), position


def worse(one: Divergence, other: Divergence) -> Divergence:
    """Return what says more against an engine: a bug, then a tie, then equality; ``one`` of two that say the same."""
    worst = min((one, other), key=_innocence)
    equal_tokens = [found.extra["equal_tokens"] for found in (one, other) if "equal_tokens" in found.extra]
    return replace(worst, extra={**worst.extra, "equal_tokens": min(equal_tokens)}) if equal_tokens else worst


def _innocence(found: Divergence) -> int:
    return 2 * found.equal + found.near_tie


def equal_share(divergence: Divergence, new_tokens: int) -> float:
    """Return the share of tokens before the first divergence of any row."""
    equal_tokens = divergence.extra.get("equal_tokens", divergence.position)
    return 1.0 if equal_tokens is None else float(equal_tokens) / new_tokens


def _finite(logits: Logits) -> np.ndarray:
    """Return [B, N]: whether all logits of both sides are finite."""
    finite: np.ndarray = np.isfinite(logits.uncached).all(-1)
    return finite if logits.engine is None else finite & np.isfinite(logits.engine).all(-1)


def _teacher_forced(logits: Logits, dtype: str) -> dict[str, Any]:
    """Return the largest error of a logit over all steps, relative to the largest |logit|, and its step."""
    if logits.engine is None or not _finite(logits).all():
        return {}
    error_N = np.abs(logits.engine - logits.uncached).max((0, 2))
    scale = float(_largest(logits.uncached))
    return {
        "max_logit_error": float(error_N.max()) / scale if scale else 0.0,
        "logit_tolerance": relative_rounding(dtype),
        "worst_step": int(error_N.argmax()),
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


def _largest(logits: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Return the largest finite |logit|; 0 where there is none."""
    largest: np.ndarray = np.where(np.isfinite(logits), np.abs(logits), 0.0).max(axis)
    return largest
