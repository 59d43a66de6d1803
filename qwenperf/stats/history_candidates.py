"""Where a history may have steps: asv's fit of a piecewise constant function, told what the noise is.

asv chooses how many steps there are from the points alone, which finds steps in noise that resembles itself. Here it is
handed a series without that resemblance and the price of a step in units of the noise, cheap on purpose: these are
places to be tested, and ``history`` tests them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.stats.history_noise import Array, Noise, independent_deviation

_PRICE = 3.0
"""Deviations that a step must save in the sum of distances. Unchanged normal noise saves 5 at its best place."""

_MOST = 0.5
"""Correlation that is taken out before the search, at most: a measured one may be too high by 0.3, and would take the
step with it. What is left makes a few more places to test."""


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
    return [int(end) for end in ends[:-1]]


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
