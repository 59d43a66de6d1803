"""Where a history may have steps: asv's fit of a piecewise constant function, told what the noise is.

asv chooses how many steps there are from the points alone, which finds steps in noise that resembles itself. Here it is
handed a series without that resemblance and the price of a step in units of the noise, cheap on purpose: these are
places to be tested, and ``history`` tests them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.stats.history_noise import Array, Noise, independent_deviation

_PRICE = 3.0
"""Deviations that a step must save in the sum of distances. Unchanged normal noise saves 5 at its best place."""

_MOST = 0.5
"""Correlation that is taken out before the search, at most: a measured one may be too high by 0.3, and would take the
step with it. What is left makes a few more places to test."""

_PLACES = 20
"""Places that are tested, at most: each is tried beside all others, over and over. A history that only ever rises or
swings has one every few points, and would take minutes; none with steps has so many."""


def candidates(values: Array, noise: Noise, least: int) -> list[int]:
    """Return the first points of what may be new levels of ``least`` points or more.

    ``asv.step_detect`` minimises the sum of distances from levels plus a price for each: Friedrich, Kempe, Liebscher
    and Winkler, "Complexity penalized M-estimation" (2008). Neighbours are made independent first, as in the source of
    ``measure_noise``: a step of size d becomes one of d (1 - r), with a first point of d.

    Raises:
      EnvironmentUnfitError: asv is not installed.
    """
    if noise.deviation == 0 or len(values) < 2 * least:
        return []
    r = min(noise.correlation, _MOST)
    fresh = values.copy()
    fresh[1:] -= r * values[:-1]
    fresh[0] *= 1 - r
    price = _PRICE * independent_deviation(fresh)
    ends, _, _ = step_detect().solve_potts_approx(fresh.tolist(), [1.0] * len(fresh), gamma=price, min_size=least)
    return clearest([int(end) for end in ends[:-1]], values, _PLACES)


def clearest(places: Sequence[int], values: Array, most: int) -> list[int]:
    """Return at most ``most`` of ``places``: the two levels that differ least become one, until there are so few.

    What a step explains is d^2 m n / (m + n), for levels of m and n points with means that differ by d.
    """
    edges = [0, *places, len(values)]
    sums = np.concatenate([[0.0], np.cumsum(values)])
    while len(edges) - 2 > most:
        counts = np.diff(edges)
        change = np.diff(np.diff(sums[edges]) / counts)
        del edges[1 + int(np.argmin(change**2 * counts[:-1] * counts[1:] / (counts[:-1] + counts[1:])))]
    return edges[1:-1]


def step_detect() -> Any:
    """Return the module ``asv.step_detect``, imported when it is needed: it takes half a second.

    Raises:
      EnvironmentUnfitError: asv is not installed, or does not start; names the extra that brings it.
    """
    try:
        return import_module("asv.step_detect")
    except ImportError as error:
        raise EnvironmentUnfitError(
            f"steps in a history are looked for with asv's step detection, which cannot be imported: {error}.",
            advice="Install it: pip install 'qwenperf[history]' (or asv, 0.6.5 or newer).",
        ) from error
