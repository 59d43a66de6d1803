"""Histories whose truth is known: 2% noise of three kinds, and what happened in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

POINTS = 200
NOISE = 0.02
STEP = 0.03
PER_COMMIT = 0.001
DRIFTING = 150
CORRELATION = 0.5
_LEVEL = 100.0
_SPIKE = 0.15


def _iid(random: np.random.Generator, points: int) -> Array:
    return random.normal(size=points)


def _heavy_tailed(random: np.random.Generator, points: int) -> Array:
    """Student's t with 3 degrees of freedom, of deviation 1."""
    return np.asarray(random.standard_t(3, size=points) / math.sqrt(3))


def _autoregressive(random: np.random.Generator, points: int) -> Array:
    """AR(0.5) of deviation 1."""
    fresh = random.normal(size=points)
    made = np.empty(points)
    made[0] = fresh[0]
    for point in range(1, points):
        made[point] = CORRELATION * made[point - 1] + math.sqrt(1 - CORRELATION**2) * fresh[point]
    return made


KINDS: Mapping[str, Callable[[np.random.Generator, int], Array]] = {
    "iid": _iid,
    "heavy-tailed": _heavy_tailed,
    "AR(0.5)": _autoregressive,
}


@dataclass(frozen=True, kw_only=True)
class History:
    """Values, and the truth: the first point of a new level, or ``None``; the point that a release was made at."""

    values: Array
    place: int | None = None
    released: int = 0


def unchanged(noise: Array, random: np.random.Generator) -> History:
    """Nothing happens."""
    del random
    return History(values=_LEVEL * (1 + NOISE * noise))


def step(noise: Array, random: np.random.Generator, size: float = STEP) -> History:
    """One step, at any place in the middle half."""
    place = int(random.integers(len(noise) // 4, 3 * len(noise) // 4 + 1))
    return _stepped(noise, place, size)


def large_step(noise: Array, random: np.random.Generator) -> History:
    """One step of 5%, in the middle half."""
    return step(noise, random, size=0.05)


def fresh_step(noise: Array, random: np.random.Generator) -> History:
    """One step that has 20 points after it."""
    del random
    return _stepped(noise, len(noise) - 20, STEP)


def drift(noise: Array, random: np.random.Generator) -> History:
    """0.1% a commit over 150 commits, all that there are."""
    del random
    kept = noise[:DRIFTING]
    return History(values=_LEVEL * (1 + PER_COMMIT * np.arange(DRIFTING)) * (1 + NOISE * kept))


def drift_since_release(noise: Array, random: np.random.Generator) -> History:
    """50 commits without a change, a release, then 0.1% a commit over 150 commits."""
    del random
    start = len(noise) - DRIFTING
    grown = np.maximum(np.arange(len(noise)) - start, 0)
    return History(values=_LEVEL * (1 + PER_COMMIT * grown) * (1 + NOISE * noise), released=start)


def spikes(noise: Array, random: np.random.Generator) -> History:
    """No step: single values 15% off at the first and the last point and at three places between."""
    values = unchanged(noise, random).values
    for place in (0, len(values) - 1, *random.choice(np.arange(10, len(values) - 10), size=3, replace=False)):
        values[place] *= 1 + _SPIKE
    return History(values=values)


def _stepped(noise: Array, place: int, size: float) -> History:
    level = _LEVEL * (1 + size * (np.arange(len(noise)) >= place))
    return History(values=level * (1 + NOISE * noise), place=place)


SCENARIOS: Mapping[str, Callable[[Array, np.random.Generator], History]] = {
    "unchanged": unchanged,
    "spikes": spikes,
    "step": step,
    "large step": large_step,
    "fresh step": fresh_step,
    "drift": drift,
    "drift since a release": drift_since_release,
}


def histories(kind: str, scenario: str, count: int, seed: int) -> list[History]:
    """Return ``count`` histories; a seed gives the same ones again, whatever else is drawn."""
    made = []
    for number in range(count):
        random = np.random.default_rng([seed, number, *kind.encode(), *scenario.encode()])
        made.append(SCENARIOS[scenario](KINDS[kind](random, POINTS), random))
    return made
