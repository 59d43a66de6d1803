"""How much pairs that resemble their neighbours widen an interval: the machine drifts, and 20 pairs count as fewer.

The lag-1 correlation of one case's 20 pairs is known to 0.2 only; all cases of a comparison ran on the same machine at
the same time, so their mean is known better, and it is what decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST = 6
"""Fewer pairs tell nothing of their neighbours."""

_OWN_DOUBT = 2.0
"""Standard errors that are taken off one case's own correlation before it is believed: each case is looked at."""

_MOST = 0.8


def widening(cases: Mapping[str, Array]) -> dict[str, float]:
    """Return for each case the factor (1 or more) by which its interval is wider than that of independent pairs.

    sqrt((1 + r) / (1 - r)) for a first-order autoregression: Bartlett, "On the theoretical specification and sampling
    properties of autocorrelated time-series" (1946). r is the mean of the cases' lag-1 correlations, freed of its bias;
    a case that shows more than that and 2 standard errors of its own is widened by what it shows beyond those.
    """
    lengths = {len(values) for values in cases.values() if len(values) >= _LEAST}
    known: dict[str, float] = {}
    for length in lengths:
        names = [name for name, values in cases.items() if len(values) == length]
        found = lag_one(np.stack([cases[name] for name in names]))
        known |= {name: r for name, r in zip(names, found.tolist(), strict=True) if math.isfinite(r)}
    if not known:
        return dict.fromkeys(cases, 1.0)
    error = 1 / math.sqrt(float(np.mean([len(cases[name]) for name in known])))
    shared = float(np.mean(list(known.values())))
    own = {name: r - _OWN_DOUBT * error for name, r in known.items()}
    return {name: _factor(max(shared, own.get(name, 0.0))) for name in cases}


def lag_one(rows: Array) -> Array:
    """Return the lag-1 correlation of each row without its bias, -(1 + 3 r) / n; not a number where all are equal.

    Kendall, "Note on bias in the estimation of autocorrelation" (1954). Wild values are pulled in to 3 scaled median
    deviations first, so that one of them hides nothing.
    """
    count = rows.shape[1]
    deviations = rows - np.median(rows, axis=1, keepdims=True)
    scale = 3 * 1.4826 * np.median(np.abs(deviations), axis=1, keepdims=True)
    scale[scale == 0] = np.inf
    deviations = np.minimum(np.maximum(deviations, -scale), scale)
    deviations -= deviations.sum(axis=1, keepdims=True) / count
    square = (deviations**2).sum(axis=1)
    square[square <= 1e-24] = np.nan
    products = (deviations[:, 1:] * deviations[:, :-1]).sum(axis=1)
    return np.asarray((products / square + 1 / count) / (1 - 3 / count))


def _factor(correlation: float) -> float:
    r = min(max(correlation, 0.0), _MOST)
    return math.sqrt((1 + r) / (1 - r))
