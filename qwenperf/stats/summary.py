"""What a handful of readings says: median, its interval, percentiles, a slope. Pure functions on arrays.

Readings of time are skewed and few (3 to 5 trials), so nothing here assumes a normal distribution of the
readings, and an interval always carries the coverage that it really has. Knows nothing of what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qwenperf.errors import MeasurementError
from qwenperf.stats import kendall

Readings = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The median of ``count`` readings; ``low`` to ``high`` holds the true median with probability ``coverage``."""

    count: int
    median: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class Slope:
    """A robust line: change of y for one unit of x, with an interval of ``coverage``."""

    slope: float
    intercept: float
    low: float
    high: float
    coverage: float


def median(values: Readings) -> float:
    """Return the median of ``values``; for an even count the mean of the two in the middle.

    Raises:
      MeasurementError: no values, or one that is not finite.
    """
    return float(np.median(_checked(values)))


def percentile(values: Readings, percent: float) -> float:
    """Return the ``percent``-th percentile (0 to 100), interpolated between order statistics.

    With x sorted and h = (n - 1) * percent / 100 it is x[floor(h)] + (h - floor(h)) * (x[floor(h) + 1] - x[floor(h)]):
    definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996). With fewer
    than 100 / (100 - percent) readings it is hardly more than the maximum.

    Raises:
      MeasurementError: no values, or one that is not finite.
    """
    return float(np.percentile(_checked(values), percent))


def summarize(values: Readings, confidence: float = 0.95) -> Summary:
    """Return the median with the narrowest interval of order statistics that covers it with ``confidence``.

    With x sorted, x[k] to x[n - 1 - k] holds the median of any continuous distribution with probability
    1 - 2 * P(Binomial(n, 1/2) <= k) (David and Nagaraja, "Order Statistics", section 7.1). Up to 5 readings even the
    widest, minimum to maximum, covers less than 95%: 50% for 2, 75% for 3, 87.5% for 4, 93.75% for 5. It is returned
    with that coverage; a single reading has coverage 0.

    Raises:
      MeasurementError: no values, or one that is not finite.
    """
    ordered = np.sort(_checked(values))
    count = len(ordered)
    depth, coverage = _depth(count, confidence)
    return Summary(
        count=count,
        median=float(np.median(ordered)),
        low=float(ordered[depth]),
        high=float(ordered[count - 1 - depth]),
        coverage=coverage,
    )


def theil_sen(x: Readings, y: Readings, confidence: float = 0.95) -> Slope:
    """Return the median of the slopes of all pairs of points, and its interval.

    With the N slopes sorted, slope[k] to slope[N - 1 - k] holds the true one with probability 1 - 2 * P(D <= k), D the
    number of pairs that a random order turns round: Sen, "Estimates of the Regression Coefficient Based on Kendall's
    Tau" (1968). P is counted exactly up to 40 points, and normal beyond (see ``kendall``). Few points cannot reach 95%:
    3 have 66.7%, 4 have 91.7%, and the interval says so. It takes the errors as independent, so a drift of the
    machine during the series makes it too narrow. Up to 29% of wild points do not move the slope.

    Raises:
      MeasurementError: fewer than 3 points, different lengths, one value of x only, or a value not finite.
    """
    xs, ys = _checked(x), _checked(y)
    if len(xs) != len(ys) or len(xs) < 3:
        raise MeasurementError(f"a slope needs 3 points or more, and has {len(xs)} x and {len(ys)} y.")
    first, second = np.triu_indices(len(xs), k=1)
    run = xs[second] - xs[first]
    slopes = np.sort((ys[second] - ys[first])[run != 0] / run[run != 0])
    if len(slopes) == 0:
        raise MeasurementError(f"a slope needs different positions, and all are {xs[0]:g}.")
    slope = float(np.median(slopes))
    depth, coverage = kendall.depth(np.unique(xs, return_counts=True)[1].tolist(), confidence)
    return Slope(
        slope=slope,
        intercept=float(np.median(ys - slope * xs)),
        low=float(slopes[depth]),
        high=float(slopes[len(slopes) - 1 - depth]),
        coverage=coverage,
    )


def _depth(count: int, confidence: float) -> tuple[int, float]:
    """Return how many readings to leave out at each end, and the coverage that is left."""
    # Of a thousand readings no float holds 2**n, nor its inverse: divided are whole numbers.
    orders, ways = 2**count, 1
    depth, outside = 0, 2
    while depth + 1 < count - 1 - depth - 1:
        ways = ways * (count - depth) // (depth + 1)
        more = outside + 2 * ways
        if 1 - more / orders < confidence:
            break
        depth, outside = depth + 1, more
    return depth, 1 - outside / orders


def _checked(values: Readings) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0:
        raise MeasurementError("there is no reading to summarise.")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise MeasurementError(f"reading {wrong[0]} of {array.size} is {array[wrong[0]]}, which is not finite.")
    return array
