"""Where an engine leaves uncached greedy decoding, and whether that is a tie or a bug. Pure numpy.

One uncached forward over the prompt and the engine's own tokens is enough: as long as both agree, uncached
greedy decoding would have fed the same tokens, so by induction the first position whose uncached argmax is another
token is exactly where uncached decoding would have diverged. Later steps are compared by their logits, both sides fed
the engine's tokens, so that a tie does not hide a bug behind it.

Rounding. Both sides compute each logit in another order of additions. With eps = 2^-23 (f32) or 2^-8 (bf16), the
spacing of numbers in [1, 2), two correct logits differ by at most about

    K * eps * max|logit|,     K = 512 for f32, 8 for bf16

f32: sums over up to thousands of terms through tens of layers, all in f32, so errors add up over many
roundings. bf16: sums are kept in f32 and only what passes between operations is rounded, so few roundings count.
A token differs by a near-tie when the uncached logits of the two tokens are no further apart than that.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    ``position`` counts generated tokens from 0. Logits that are not finite are a divergence: the largest of them
    says nothing.
    """
    expected_BN = logits.uncached.argmax(-1)
    different = ~_finite(logits) | (expected_BN != generated_BN)
    teacher = _teacher_forced(logits, dtype)
    if not different.any():
        return Divergence(equal=True, reference=REFERENCE, **teacher)
    position = int(different.any(0).argmax())
    row = int(different[:, position].argmax())
    expected, actual = int(expected_BN[row, position]), int(generated_BN[row, position])
    reference_margin, engine_margin = (
        None if side is None else _margin(side[row, position], expected, actual)
        for side in (logits.uncached, logits.engine)
    )
    tolerance = relative_rounding(dtype) * _largest(logits.uncached[row, position])
    finite = bool(_finite(logits)[row, position])
    return Divergence(
        equal=False,
        reference=REFERENCE,
        row=row,
        position=position,
        expected_token=expected,
        actual_token=actual,
        reference_margin=reference_margin,
        engine_margin=engine_margin,
        near_tie=finite and reference_margin is not None and reference_margin <= tolerance,
        tolerance=tolerance,
        extra={} if finite else {"not_finite": True},
        **teacher,
    )


def equal_share(divergence: Divergence, new_tokens: int) -> float:
    """Return the share of tokens before the first divergence."""
    return 1.0 if divergence.position is None else divergence.position / new_tokens


def _finite(logits: Logits) -> np.ndarray:
    """Return [B, N]: whether all logits of both sides are finite."""
    finite: np.ndarray = np.isfinite(logits.uncached).all(-1)
    return finite if logits.engine is None else finite & np.isfinite(logits.engine).all(-1)


def _teacher_forced(logits: Logits, dtype: str) -> dict[str, Any]:
    """Return the largest error of a logit over all steps, relative to the largest |logit|, and its step."""
    if logits.engine is None or not _finite(logits).all():
        return {}
    error_N = np.abs(logits.engine - logits.uncached).max((0, 2))
    scale = _largest(logits.uncached)
    return {
        "max_logit_error": float(error_N.max()) / scale if scale else 0.0,
        "logit_tolerance": relative_rounding(dtype),
        "worst_step": int(error_N.argmax()),
    }


def _margin(logits_V: np.ndarray, expected: int, actual: int) -> float | None:
    margin = float(logits_V[expected]) - float(logits_V[actual])
    return margin if np.isfinite(margin) else None


def _largest(logits: np.ndarray) -> float:
    finite = np.abs(logits[np.isfinite(logits)])
    return float(finite.max()) if finite.size else 0.0
