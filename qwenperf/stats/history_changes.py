"""What is told of a history that was taken apart: steps, shifts between environments, drift, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qwenperf.stats.history_model import Errors, contrast
from qwenperf.stats.history_noise import Array, Noise
from qwenperf.stats.history_prune import Frame, Kept, without
from qwenperf.stats.student import quantile, upper_tail

_OUTSIDE = 0.025
"""Chance of the truth to lie beyond one end of an interval."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A level that begins at ``place``, or with a chance of 95% somewhere from ``first`` to ``last``.

    ``change`` with its 95% interval is in the values' own unit. ``p_value``: how likely unchanged noise makes it.
    """

    place: int
    first: int
    last: int
    change: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Shift:
    """How far a group of points (an environment) is from the one before, from its first point ``place`` on."""

    place: int
    change: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A change that grows point by point from ``since`` on: its total up to the last point, steps left out."""

    since: int
    change: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What was found.

    ``total`` is the change since ``since`` by steps and drift together, with its interval; ``levels`` what the values
    would be without noise. ``noise`` is ``None`` where there are too few points to look for anything.
    """

    steps: tuple[Step, ...] = ()
    shifts: tuple[Shift, ...] = ()
    drift: Drift | None = None
    noise: Noise | None = None
    levels: tuple[float, ...] = ()
    total: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """The columns that stand, and their errors: what contrasts are taken of."""

    values: Array
    columns: Array
    errors: Errors

    def told(self, weights: Array) -> tuple[float, float, float, float]:
        """Return weights . coefficients, its 95% interval and how likely that is of 0."""
        change, spread = contrast(self.values, self.columns, weights, self.errors)
        half = quantile(_OUTSIDE, self.errors.freedom) * spread
        return change, change - half, change + half, p_value(change, spread, self.errors.freedom)

    def one(self, index: int) -> tuple[float, float, float, float]:
        """Tell of one coefficient."""
        return self.told(self.unit(index))

    def unit(self, index: int) -> Array:
        """Return the weights of one coefficient."""
        weights = np.zeros(self.columns.shape[1])
        weights[index] = 1.0
        return weights


def p_value(change: float, spread: float, freedom: int) -> float:
    """Return how likely a change of that size or more is where there is none, to either side."""
    if not math.isfinite(spread):
        return 1.0
    return 1.0 if spread == 0 else 2 * upper_tail(abs(change) / spread, freedom)


def changes_of(frame: Frame, kept: Kept, slope: Array, since: int, ids: NDArray[np.int_]) -> Changes:
    """Return what ``kept`` steps, and the ``slope`` column where one stands, say of the history in ``frame``."""
    known, found = frame.known.shape[1], kept.errors
    spots = _spots(without(frame, np.hstack([frame.known, slope])), kept)
    columns = np.hstack([frame.columns([place for place, _, _ in spots]), slope])
    fit = _Fit(values=frame.values, columns=columns, errors=found)
    drift = None
    if slope.shape[1]:
        change, low, high, p = fit.one(-1)
        drift = Drift(since=since, change=change, low=low, high=high, p_value=p)
    weights = columns[-1] - columns[since]
    weights[:known] = 0
    total = fit.told(weights)
    return Changes(
        steps=tuple(_steps(fit, kept, spots, known)),
        shifts=tuple(_shifts(fit, ids, known)),
        drift=drift,
        noise=Noise(deviation=found.deviation / math.sqrt(1 - found.correlation**2), correlation=found.correlation),
        levels=tuple((columns @ np.linalg.lstsq(columns, frame.values, rcond=None)[0]).tolist()),
        total=total[:3],
    )


def _spots(frame: Frame, kept: Kept) -> list[tuple[int, int, int]]:
    """Return the place, the first and the last possible place of each step, one after the other."""
    spots, places = [], list(kept.places)
    for index, place in enumerate(kept.places):
        others = places[:index] + places[index + 1 :]
        tried = frame.scan(place, others, kept.errors)
        spots.append(tried.located() if tried else (place, place, place))
        places[index] = spots[-1][0]
    return spots


def _steps(fit: _Fit, kept: Kept, spots: list[tuple[int, int, int]], known: int) -> Iterator[Step]:
    for index, (place, first, last) in enumerate(spots):
        change, low, high, _ = fit.one(known + index)
        p = kept.p_values[index]
        yield Step(place=place, first=first, last=last, change=change, low=low, high=high, p_value=p)


def _shifts(fit: _Fit, ids: NDArray[np.int_], known: int) -> Iterator[Shift]:
    """Compare each group with that of the point before its first one, which came earlier."""
    groups = int(ids.max(initial=0)) + 1
    for place in sorted(int(np.argmax(ids == group)) for group in range(groups))[1:]:
        weights = np.zeros(fit.columns.shape[1])
        for group, sign in ((ids[place], 1.0), (ids[place - 1], -1.0)):
            if group > 0:  # the first group has no column: it is the level
                weights[known - groups + group] = sign
        change, low, high, p = fit.told(weights)
        yield Shift(place=place, change=change, low=low, high=high, p_value=p)
