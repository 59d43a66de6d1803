"""How much longer a step takes the further it is into a sequence: one definition for the metric and for the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qwenperf.stats.summary import theil_sen

LEAST_STEPS = 3
"""A slope needs so many points."""

_MAX_STEPS = 512
"""More are thinned out: pairs of steps grow with the square."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Growth of the step time per 100 positions, relative to the median step, with an interval of ``coverage``.

    ``by_trial`` are the growths that each trial shows alone; ``slope_s`` is in seconds per position.
    """

    per_100: float
    low: float
    high: float
    coverage: float
    by_trial: tuple[float, ...]
    slope_s: float
    median_s: float
    first: int
    last: int

    @property
    def half_width(self) -> float:
        """Distance from the estimate to the further end of its interval: how much noise hides."""
        return max(self.high - self.per_100, self.per_100 - self.low)


def growth(positions: Sequence[int], step_s: Sequence[Sequence[float]]) -> Growth | None:
    """Return the growth of ``step_s[trial][i]`` over ``positions[i]``: Theil-Sen over the medians of the trials.

    per_100 = 100 * slope(median over trials of step time, position) / median step time. ``None`` below 3 steps,
    without a whole trial, or where no time passed.
    """
    trials = np.asarray([steps for steps in step_s if len(steps) == len(positions)])
    if len(trials) == 0 or len(positions) < LEAST_STEPS or float(np.median(trials)) <= 0:
        return None
    every = max(1, -(-len(positions) // _MAX_STEPS))
    # Means of neighbours and no choice of them: an engine that hands over two tokens at once is fast each second time.
    starts = np.arange(0, len(positions), every)
    sizes = np.diff([*starts, len(positions)])
    kept = np.add.reduceat(np.asarray(positions, dtype=float), starts) / sizes
    trials = np.add.reduceat(trials, starts, axis=1) / sizes
    steps = np.median(trials, axis=0)
    if float(np.median(steps)) <= 0:
        return None
    scale = 100 / float(np.median(steps))
    line = theil_sen(kept, steps)
    return Growth(
        per_100=scale * line.slope,
        low=scale * line.low,
        high=scale * line.high,
        coverage=line.coverage,
        by_trial=tuple(scale * theil_sen(kept, trial).slope for trial in trials),
        slope_s=line.slope,
        median_s=float(np.median(steps)),
        first=int(min(positions)),
        last=int(max(positions)),
    )
