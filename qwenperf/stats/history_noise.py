"""How noisy a history is, whatever steps it has: its deviation, and how much a point resembles the one before it.

Nothing here knows of commits, units or limits: arrays in, numbers out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_CORRELATION = 0.9
"""A history that resembles itself more than this wanders, and what it does is a change to whoever looks at it."""

_AROUND = 3
"""Points on either side of the running median: spikes of up to 3 points are not in it, and steps are."""

_TAME = 4.0
NORMAL = 1.4826
"""The median absolute deviation of a normal distribution, times this, is its deviation."""

_MOST_PAIRED = 600
"""Pairs of points grow with the square; of more points every k-th is enough for a deviation."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """``deviation`` of single points around their level, in the unit of the values, and their lag-1 ``correlation``."""

    deviation: float
    correlation: float


def measure_noise(values: Array) -> Noise:
    """Return the noise of ``values`` (at least 4) by differences of neighbours, to which a step adds one or two.

    With V(k) the variance of y[i + k] - y[i], an AR(1) process has correlation V(2) / V(1) - 1, and both variances are
    taken by Qn, which half of the differences cannot break: Chakar, Lebarbier, Levy-Leduc and Robin, "A robust approach
    for estimating change-points in the mean of an AR(1) process" (2017).
    """
    near, far = (_spread(values[lag:] - values[:-lag]) for lag in (1, 2))
    if near == 0:
        near, far = (float(np.std(values[lag:] - values[:-lag])) for lag in (1, 2))
    if near == 0:
        return Noise(deviation=0.0, correlation=0.0)
    correlation = min(max((far / near) ** 2 - 1, 0.0), MOST_CORRELATION)
    return Noise(deviation=near / math.sqrt(2 * (1 - correlation)), correlation=correlation)


def independent_deviation(values: Array) -> float:
    """Return the deviation of values that do not resemble their neighbours, whatever steps they have."""
    return _spread(values[1:] - values[:-1]) / math.sqrt(2)


def _spread(values: Array) -> float:
    """Return Qn, the lower quartile of the distances of all pairs, scaled to a normal distribution's deviation.

    Rousseeuw and Croux, "Alternatives to the median absolute deviation" (1993).
    """
    kept = values[:: max(1, -(-len(values) // _MOST_PAIRED))]
    count = len(kept)
    half = count // 2 + 1
    upper = np.triu_indices(count, 1)
    distances = np.abs(kept[upper[0]] - kept[upper[1]])
    if not len(distances):
        return 0.0
    rank = half * (half - 1) // 2 - 1
    return 2.2219 * float(np.partition(distances, rank)[rank])


def tame(values: Array) -> Array:
    """Pull spikes in: nothing is further from the running median of 7 points than 4 deviations of all such distances.

    Steps stay where they are, for half of the points around one are on either side of it.
    """
    if len(values) <= 2 * _AROUND:
        return values
    padded = np.pad(values, _AROUND, mode="reflect")
    middle = np.median(sliding_window_view(padded, 2 * _AROUND + 1), axis=1)
    return middle + pulled(values - middle, _TAME)[0]


def pulled(distances: Array, most: float) -> tuple[Array, float]:
    """Return the distances, none above ``most`` robust deviations, and the share that were within.

    Where more than half of them are 0, nothing is pulled in: there is no deviation to go by.
    """
    limit = most * NORMAL * float(np.median(np.abs(distances)))
    if limit == 0:
        return distances, 1.0
    inside = float(np.mean(np.abs(distances) <= limit))
    return np.minimum(np.maximum(distances, -limit), limit), inside
