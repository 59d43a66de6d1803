"""Seeded noise of process pairs, for judging the method that judges changes: log ratios of unchanged code.

Every kind has mean 0 and the asked deviation over 20 pairs. What is drawn is how much slower the process that was
started second is; the order of each two pairs is then drawn by lot, as the pair runner does, and gives the sign.
Without the lot the machine's drift looks like a difference between head and base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from qwenperf.errors import UnknownNameError, UsageError

Array = NDArray[np.float64]

CORRELATION = 0.5
"""Of neighbouring pairs in autoregressive noise."""

_SPLIT = 0.95
"""Half the distance of the two modes, in deviations."""

_DRIFT_SHARE = 0.5
"""Of the variance of drifting noise."""


def _iid(random: np.random.Generator, cases: int, pairs: int) -> Array:
    return random.normal(size=(cases, pairs))


def _heavy_tailed(random: np.random.Generator, cases: int, pairs: int) -> Array:
    """Student's t with 3 degrees of freedom: one pair in 50 is off by 3.5 times the middle half's width or more."""
    return random.standard_t(3, size=(cases, pairs)) / math.sqrt(3)


def _autoregressive(random: np.random.Generator, cases: int, pairs: int) -> Array:
    fresh = random.normal(size=(cases, pairs))
    noise = np.empty((cases, pairs))
    noise[:, 0] = fresh[:, 0]
    for pair in range(1, pairs):
        noise[:, pair] = CORRELATION * noise[:, pair - 1] + math.sqrt(1 - CORRELATION**2) * fresh[:, pair]
    return noise


def _bimodal(random: np.random.Generator, cases: int, pairs: int) -> Array:
    states = random.choice([-_SPLIT, _SPLIT], size=(cases, pairs))
    return np.asarray(states + math.sqrt(1 - _SPLIT**2) * random.normal(size=(cases, pairs)))


def _drifting(random: np.random.Generator, cases: int, pairs: int) -> Array:
    """A straight line through 0 in the middle, up or down, under independent noise."""
    line = np.linspace(-1, 1, pairs) if pairs > 1 else np.zeros(1)
    line = line / max(float(line.std()), 1e-12) * random.choice([-1, 1], size=(cases, 1))
    return np.asarray(math.sqrt(_DRIFT_SHARE) * line + math.sqrt(1 - _DRIFT_SHARE) * random.normal(size=(cases, pairs)))


KINDS: Mapping[str, Callable[[np.random.Generator, int, int], Array]] = {
    "iid": _iid,
    "heavy-tailed": _heavy_tailed,
    "autoregressive": _autoregressive,
    "bimodal": _bimodal,
    "drifting": _drifting,
}


def pair_noise(
    kind: str, random: np.random.Generator, *, cases: int, pairs: int, sd: float, by_lot: bool = True
) -> Array:
    """Return log ratios of unchanged code, one row a case; all cases of a pair share its order.

    Raises:
      UnknownNameError: a kind that is not in ``KINDS``.
      UsageError: a size below 1 or a deviation that is none.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of noise", kind, KINDS)
    if cases < 1 or pairs < 1 or not (math.isfinite(sd) and sd >= 0):
        raise UsageError(f"no noise has {cases} cases, {pairs} pairs and a deviation of {sd}.")
    noise = sd * KINDS[kind](random, cases, pairs)
    return noise * order_signs(random, pairs) if by_lot else noise


def order_signs(random: np.random.Generator, pairs: int) -> Array:
    """Return 1 where base is started first and -1 where head is: of each two pairs one of either, by lot."""
    first = random.choice([-1.0, 1.0], size=-(-pairs // 2))
    return np.stack([first, -first], axis=1).ravel()[:pairs]


def replay(recorded: Sequence[float], random: np.random.Generator, *, cases: int, pairs: int) -> Array:
    """Return recorded log ratios of unchanged code drawn again, each with a sign by lot; one row a case.

    Raises:
      UsageError: nothing recorded, or a value that is not finite.
    """
    values = np.asarray(recorded, dtype=np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        raise UsageError(f"{values.size} recorded pairs cannot be replayed; they must be finite and at least one.")
    drawn = random.choice(values, size=(cases, pairs))
    return np.asarray(drawn * random.choice([-1.0, 1.0], size=(cases, pairs)))
