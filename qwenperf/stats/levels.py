"""Which of two levels do pairs lie at: 0, as unchanged code does, or a known one? Asked again with every two pairs.

A bisection has measured how far bad is from good, so that a commit between them is like the one or like the other, and
few pairs tell. Either level is doubted by bets against it. About the true level the sign of a pair is a fair coin,
whatever its size, because the order of its processes was drawn by lot (``signs``). A stake that pays back 1 for each 1
on a fair coin multiplies by 1 on average, and by more where the level is another one: what began as 1 reaches 1 / p
with probability p at most, whenever one stops (Ville, "Étude critique de la notion de collectif", 1939). Heavy tails,
two modes and a deviation that nobody knows do not change that.

How much is staked is what the likelihood ratio of normal noise says of the sign, given the size: Wald, "Sequential
Tests of Statistical Hypotheses" (1945). The deviation in it is guessed from pairs before; a bad guess costs pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from qwenperf.errors import MeasurementError, UsageError
from qwenperf.stats import signs
from qwenperf.stats.bounds import LogRatios
from qwenperf.stats.dependence import widening

Array = NDArray[np.float64]

SUREST = 0.97
"""What the sign of a pair is thought to be with at most, however far off: one wild pair must not cost all that was won.

6 pairs alike win 1.94**6 = 53, and 8 win 200.
"""

KNOWN_BEFORE = 6
"""Pairs that the deviation from before counts as, beside those that are measured."""

DOUBT = 0.1
"""Level of the lower bound of a difference that was measured: below it, one-sided, the true one is as rarely."""


class Level(StrEnum):
    """Where pairs lie; ``OPEN`` as long as they do not tell."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What is asked of pairs, all on log ratios.

    Attributes:
      changed: changed code lies here or higher, unchanged code at 0 or lower.
      expected: where changed code is thought to lie; stakes go by it.
      deviation: of single pairs, as far as it is known before.
      false_changed: how often unchanged code may be told as changed; ``false_unchanged`` how often changed code as
        unchanged.
      most: pairs after which it stays open.
    """

    changed: float
    expected: float
    deviation: float
    false_changed: float = 0.02
    false_unchanged: float = 0.02
    most: int = 20

    def __post_init__(self) -> None:
        """Refuse what no pairs can tell.

        Raises:
          UsageError: a level or deviation that is none above 0, a chance that is none, fewer than 2 pairs.
        """
        for name in ("changed", "expected", "deviation"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} is {value}; levels and deviations are finite and above 0.")
        for name in ("false_changed", "false_unchanged"):
            if not 0 < getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it lies between 0 and 1.")
        if self.most < 2:
            raise UsageError(f"{self.most} pairs tell no level; 2 are the least.")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What pairs say, of which ``pairs`` were needed.

    ``against_unchanged`` is what 1 has become that was bet against 0, ``against_changed`` against the other level.
    """

    level: Level
    pairs: int
    against_unchanged: float
    against_changed: float


def tell(values: Sequence[float], asked: Levels) -> Told:
    """Return which level ``values``, log ratios in the order of time, lie at; pairs behind the decision change nothing.

    Both pairs of a block have their orders from one lot, so that levels are told after whole blocks alone.

    Raises:
      MeasurementError: a value that is not finite.
    """
    pairs = np.asarray(values, dtype=np.float64).ravel()[: asked.most]
    wrong = np.flatnonzero(~np.isfinite(pairs))
    if wrong.size:
        raise MeasurementError(f"pair {wrong[0]} is {pairs[wrong[0]]}, which is not finite.")
    scales = _scales(pairs, asked.deviation)
    unchanged = np.cumsum(_won(pairs, asked.expected, scales))
    changed = np.cumsum(_won(asked.changed - pairs, asked.changed, scales))
    level, count = Level.OPEN, len(pairs)
    for after in range(2, len(pairs) + 1, 2):
        up = unchanged[after - 1] + math.log(asked.false_changed)
        down = changed[after - 1] + math.log(asked.false_unchanged)
        if max(up, down) >= 0:
            # Pairs that lie at neither are like the nearer one.
            high = up >= 0 and (down < 0 or np.median(pairs[:after]) >= asked.changed / 2)
            level, count = (Level.CHANGED if high else Level.UNCHANGED), after
            break
    won = (float(math.exp(series[count - 1])) if count else 1.0 for series in (unchanged, changed))
    return Told(level=level, pairs=count, against_unchanged=next(won), against_changed=next(won))


def measured_level(values: Sequence[float]) -> tuple[float, float]:
    """Return where pairs lie at least (a lower bound at the level ``DOUBT``), and the deviation of single pairs.

    Raises:
      MeasurementError: fewer than 4 pairs, or one that is not finite.
    """
    pairs = np.asarray(values, dtype=np.float64).ravel()
    if len(pairs) < 4 or not np.isfinite(pairs).all():
        raise MeasurementError(f"{len(pairs)} pairs tell no level; 4 that are finite are the least.")
    wide = widening({"": pairs})[""]
    case = LogRatios(values=pairs, averages=signs.walsh(pairs), widening=wide)
    return case.lower(DOUBT), _deviation(pairs)


def _won(distances: Array, expected: float, scales: Array) -> Array:
    """Return the logarithms of what stakes on "above 0" multiply by: 2 p, p being how surely the sign is thought so."""
    most = math.log(SUREST / (1 - SUREST))
    sure = np.clip(2 * expected * distances / scales**2, -most, most)
    return np.asarray(math.log(2) - np.log1p(np.exp(-sure)))


def _scales(pairs: Array, known: float) -> Array:
    """Return the deviation by which each pair's stake goes: what is known before its block, and nothing after."""
    found = np.full(len(pairs), known)
    for begin in range(2, len(pairs), 2):
        before = _deviation(pairs[:begin]) ** 2 * begin + known**2 * KNOWN_BEFORE
        found[begin : begin + 2] = math.sqrt(before / (begin + KNOWN_BEFORE))
    return found


def _deviation(pairs: Array) -> float:
    """Return the deviation as the median distance from the median tells it, which no wild pair moves far.

    The factor for few pairs is that of Croux and Rousseeuw, "Time-Efficient Algorithms for Two Highly Robust Estimators
    of Scale" (1992).
    """
    count = len(pairs)
    return 1.4826 * float(np.median(np.abs(pairs - np.median(pairs)))) * count / (count - 0.8)
