"""How much a number changed at a place that is known beforehand: nothing is looked for, so one test is one test."""

from __future__ import annotations

import math

import numpy as np

from qwenperf.stats.history_changes import p_value
from qwenperf.stats.history_model import cleaned, contrast, errors, step_columns
from qwenperf.stats.history_noise import Array, measure_noise, tame


def change_at(values: Array, place: int) -> tuple[float, float]:
    """Return the change of level at ``place`` and how likely noise makes one of that size; of too few points, 0 and 1.

    ``values`` are those from the level before to the level after.
    """
    if len(values) < 4 or not 2 <= place <= len(values) - 2:
        return 0.0, 1.0
    columns = np.hstack([np.ones((len(values), 1)), step_columns(len(values), [place])])
    clean, share = cleaned(tame(values), columns, measure_noise(values))
    found = errors(clean, columns, 2, share)
    change, spread = contrast(clean, columns, np.asarray([0.0, 1.0]), found)
    if spread <= 1e-12 * max(abs(change), 1e-300):
        return change, 0.0 if change else 1.0
    p = p_value(change, spread, found.freedom)
    return (change, p) if math.isfinite(p) else (change, 1.0)
