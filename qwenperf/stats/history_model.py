"""A history as levels under correlated noise: generalised least squares with first-order autoregressive errors.

y[t] = columns[t] . coefficients + u[t], u[t] = correlation * u[t - 1] + e[t]. Rows are made independent before they are
fitted (Prais and Winsten, "Trend estimators and serial correlation", 1954).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qwenperf.stats.history_noise import MOST_CORRELATION, NORMAL, Array, Noise, pulled

_CLIP = 2.5
"""Robust deviations beyond which a point counts as one that far away: costs 1% of normal noise's information."""

_TOO_CLOSE = 0.5
"""Of the noise between neighbours: a robust deviation below that is of readings that are equal, and not of noise."""

_PASSES = 4


@dataclass(frozen=True, kw_only=True)
class Errors:
    """What is left when the levels are taken off.

    ``deviation`` is that of e, ``freedom`` the degrees of Student's t for a change of level, which is uncertain by the
    deviation and, more so, by the correlation.
    """

    correlation: float
    deviation: float
    freedom: int


def whiten(rows: Array, correlation: float) -> Array:
    """Return the rows less ``correlation`` times the row before; the first keeps its own variance."""
    made = np.array(rows, dtype=np.float64)
    made[1:] -= correlation * rows[:-1]
    made[0] *= math.sqrt(1 - correlation**2)
    return made


def step_columns(count: int, places: Sequence[int]) -> Array:
    """Return one column a place: 0 before it, 1 from it on."""
    return (np.arange(count)[:, None] >= np.asarray(places, dtype=int)[None, :]).astype(np.float64)


def group_columns(groups: NDArray[np.int_]) -> Array:
    """Return one column a group but the first: 1 for its points."""
    return np.asarray(groups[:, None] == np.unique(groups)[None, 1:], dtype=np.float64)


def slope_column(count: int, since: int) -> Array:
    """Return a column that is 0 up to ``since`` and rises to 1 at the last point."""
    return np.maximum(np.arange(count) - since, 0.0)[:, None] / max(count - 1 - since, 1)


def orthonormal(columns: Array) -> Array:
    """Return an orthonormal basis of what the columns span, whether or not some of them say the same."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)])


def coefficients(values: Array, columns: Array, correlation: float) -> Array:
    """Return the coefficients of the best fit; the smallest ones where columns say the same."""
    found = np.linalg.lstsq(whiten(columns, correlation), whiten(values, correlation), rcond=None)
    return np.asarray(found[0])


def errors(values: Array, columns: Array, spent: int, share: float) -> Errors:
    """Estimate the errors around the best fit of ``columns``.

    Args:
      values: the history.
      columns: what is fitted.
      spent: how many numbers the fit has chosen, places of steps included: each takes (1 + r) / n off the correlation,
        and its own estimate 2 r / n. Marriott and Pope, "Bias in the estimation of autocorrelations" (1954), say
        -(1 + 3 r) / n of a mean alone.
      share: of points that were not pulled in; a clipped point no longer moves the fit, which widens its errors by
        1 / share. Huber, "Robust statistics" (1981), section 7.6.
    """
    count, correlation = len(values), 0.0
    left = values - columns @ coefficients(values, columns, correlation)
    for _ in range(_PASSES):
        square = float(left @ left)
        raw = 0.0 if square == 0 else float(left[1:] @ left[:-1]) / square
        freed = (raw + spent / count) / max(1 - (spent + 2) / count, 0.1)
        correlation = min(max(freed, 0.0), MOST_CORRELATION)
        left = values - columns @ coefficients(values, columns, correlation)
    fresh = whiten(left, correlation)
    square, free = float(fresh @ fresh), max(count - columns.shape[1], 1)
    return Errors(
        correlation=correlation,
        deviation=math.sqrt(square / free) / share,
        freedom=_freedom(count, free, correlation),
    )


def _freedom(count: int, free: int, correlation: float) -> int:
    """Return how many readings a standard error is worth.

    A change of level has the variance deviation^2 / (1 - r)^2 times what the places give. Its logarithm varies by
    2 / free for the deviation and by 4 (1 + r) / (1 - r) / n for r, whose own variance is (1 - r^2) / n (Bartlett,
    1946); a variance of nu degrees of freedom varies by 2 / nu. Satterthwaite, "An approximate distribution of
    estimates of variance components" (1946).
    """
    share = 1 / free + 2 * (1 + correlation) / (1 - correlation) / count
    return max(int(1 / share), 2)


def cleaned(values: Array, columns: Array, noise: Noise) -> tuple[Array, float]:
    """Return the values, none further than 2.5 robust deviations from the best fit of ``columns``; the share within.

    Where more than half of the points are as good as on the fit though neighbours differ, as those of a coarse clock,
    nothing is pulled in: honest scatter would be, and what is left look like no noise at all. Iterated, so that the fit
    is Huber's and not that of the outliers: Huber, "Robust statistics" (1981), section 7.8.
    """
    made, share = values, 1.0
    for _ in range(_PASSES):
        fitted = columns @ coefficients(made, columns, noise.correlation)
        if NORMAL * float(np.median(np.abs(values - fitted))) < _TOO_CLOSE * noise.deviation:
            return values, 1.0
        distances, share = pulled(values - fitted, _CLIP)
        made = fitted + distances
    return made, share


def contrast(values: Array, columns: Array, weights: Array, found: Errors) -> tuple[float, float]:
    """Return ``weights`` . coefficients and its standard error, which is infinite where the columns do not tell it."""
    rows = whiten(columns, found.correlation)
    inverse = np.linalg.pinv(rows, rcond=1e-9)
    told = np.abs(weights @ inverse @ rows - weights).max(initial=0.0) < 1e-6
    value = float(weights @ (inverse @ whiten(values, found.correlation)))
    spread = found.deviation * float(np.linalg.norm(weights @ inverse))
    return value, spread if told else math.inf
