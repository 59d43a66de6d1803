"""Logits of both sides, cell by cell: how far correct ones may be apart, and which of them are none. Pure numpy.

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

from dataclasses import dataclass

import numpy as np

from qwenperf.errors import MeasurementError

REFERENCE = "uncached"
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


def first_cell(found_BN: np.ndarray) -> tuple[int, int]:
    """Return row and position of the earliest cell that is true; of several rows the first."""
    position = int(found_BN.any(0).argmax())
    return int(found_BN[:, position].argmax()), position


def check_vocabulary(generated_BN: np.ndarray, size: int) -> None:
    """Refuse tokens that the logits do not know.

    Raises:
      MeasurementError: names the token and its place.
    """
    outside_BN = (generated_BN < 0) | (generated_BN >= size)
    if outside_BN.any():
        row, position = first_cell(outside_BN)
        token = int(generated_BN[row, position])
        raise MeasurementError(
            f"the engine generated token {token} (row {row}, token {position}), outside the vocabulary of {size}.",
            advice=f"Return tokens from 0 to {size - 1}, the last axis of the uncached logits.",
        )


def finite_cells(logits: Logits) -> np.ndarray:
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


def not_finite_words(logits: Logits, row: int, position: int) -> str:
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


def margins_of(logits_BNV: np.ndarray, expected_BN: np.ndarray, actual_BN: np.ndarray) -> np.ndarray:
    """Return [B, N]: how much larger the expected token's logit is than the actual one's."""
    pair_BN2 = np.take_along_axis(logits_BNV, np.stack([expected_BN, actual_BN], axis=-1), axis=-1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        margins_BN: np.ndarray = pair_BN2[..., 0] - pair_BN2[..., 1]
    return margins_BN


def margin_of(logits_V: np.ndarray, expected: int, actual: int) -> float | None:
    """Return the same of one cell, ``None`` where it is no finite number."""
    margin = float(logits_V[expected]) - float(logits_V[actual])
    return margin if np.isfinite(margin) else None


def masked_logits(logits: np.ndarray) -> np.ndarray:
    """Return which logits are masks and no scores; none where a row is wholly that low."""
    low = logits <= _MASKED
    rest = np.where(low | ~np.isfinite(logits), 0.0, np.abs(logits)).max(-1, keepdims=True)
    masked: np.ndarray = low & (logits <= _MASKED_TIMES * rest) & ~low.all(-1, keepdims=True)
    return masked | np.isneginf(logits)


def scale_of(logits: np.ndarray) -> np.ndarray:
    """Return [B, N]: the largest finite |logit| that is no mask; 0 where there is none."""
    scale_BN: np.ndarray = np.where(np.isfinite(logits) & ~masked_logits(logits), np.abs(logits), 0.0).max(-1)
    return scale_BN.astype(np.float64)
