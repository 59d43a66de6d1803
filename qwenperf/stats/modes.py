"""Do pairs fall into two groups? A process often has two states, and a median between them describes neither.

The statistic is the share of the squared deviations that the best cut into two groups explains (1 is two points). It
is compared with what one normal group shows in 1 of 100 samples; groups below a fifth of the pairs are outliers and no
mode.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FALSE_ALARM = 0.01
"""Of samples from one normal distribution, this share is called two modes."""

LEAST = 12
"""Pairs below which two groups cannot be told from chance."""

_SAMPLES = 20_000

_EQUAL = 1e-12
"""Of a value: what rounding leaves between values that are equal."""


def modes(values: Array) -> tuple[float, ...]:
    """Return the means of two groups of ``values``, the lower one first; nothing where one group explains them."""
    if len(values) < LEAST or float(np.ptp(values)) <= _EQUAL * float(np.abs(values).max()):
        return ()
    ordered = np.sort(values)
    shares = _shares(ordered[None, :])[0]
    cut = int(np.argmax(shares))
    if not shares[cut] > critical(len(values)):
        return ()
    below = _smallest(len(values)) + cut
    return (float(ordered[:below].mean()), float(ordered[below:].mean()))


@cache
def critical(count: int) -> float:
    """Return the share that ``count`` normal values exceed with probability ``FALSE_ALARM``: from seeded samples."""
    samples = np.sort(np.random.default_rng(count).normal(size=(_SAMPLES, count)), axis=1)
    return float(np.quantile(_shares(samples).max(axis=1), 1 - FALSE_ALARM))


def _smallest(count: int) -> int:
    return -(-count // 5)


def _shares(ordered: Array) -> Array:
    """Return for each row and each allowed cut the share of the squares between the two groups."""
    count = ordered.shape[1]
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    below = np.arange(_smallest(count), count - _smallest(count) + 1)
    sums = np.cumsum(centred, axis=1)[:, below - 1]
    # The sums of both groups are opposite, because the values are centred.
    between = sums**2 * (1 / below + 1 / (count - below))
    total = np.maximum((centred**2).sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(between / total)
