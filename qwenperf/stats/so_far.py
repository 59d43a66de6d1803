"""What the pairs say while they are still being measured: for whoever is watching, and for no decision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwenperf.stats import signs
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.pairs import relative

LEVEL = 0.025
"""On either side. Looks have levels of their own: an interval that is watched excludes too much too often."""


def so_far(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return estimate and a plain 95% interval of log ratios as relative differences; ``None`` of fewer than 2."""
    if len(values) < 2:
        return None
    case = np.asarray(values, dtype=np.float64)
    pairs = LogRatios(values=case, averages=signs.walsh(case), widening=1.0)
    return relative(pairs.centre), relative(pairs.lower(LEVEL)), relative(-pairs.mirrored.lower(LEVEL))
