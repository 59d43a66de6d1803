"""What signs alone can prove: signed ranks and sign flips, exact for any noise that is symmetric about the effect.

In a pair whose order was drawn by lot and whose code is the same on both sides, head and base could as well have been
swapped, which turns the sign of the log ratio round. So each sign is a fair coin whatever the sizes are: heavy tails,
two modes and sizes that drift from pair to pair change nothing. That is all the functions here assume.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EXACT_FLIPS = 32
"""Pairs up to which all sign flips are counted; beyond, a seeded sample of them."""

_SAMPLED_FLIPS = 1 << 17
_MOST_COINS = 1 << 22
"""Thrown at a time: 32 MB. Of hundreds of pairs all together would take gigabytes."""


@cache
def rank_tail(count: int) -> Array:
    """Return P(W <= w) for w = 0, 1, ..., W the sum of those of the ranks 1 to ``count`` whose coins show heads.

    Wilcoxon, "Individual Comparisons by Ranking Methods" (1945); counted by adding one rank after the other.
    """
    chance = np.ones(1)
    for rank in range(1, count + 1):
        longer = np.zeros(len(chance) + rank)
        longer[: len(chance)] += chance / 2
        longer[rank:] += chance / 2
        chance = longer
    return np.cumsum(chance)


def walsh(values: Array) -> Array:
    """Return the averages of all pairs of ``values``, each with itself included, sorted."""
    first, second = _triangle(len(values))
    return np.sort((values[first] + values[second]) / 2)


def lower_bound(averages: Array, count: int, level: float) -> float:
    """Return the highest Walsh average that lies above the centre with probability ``level`` at most.

    The k-th smallest of ``averages`` (of ``count`` values) lies above it as often as W <= k - 1: Hollander, Wolfe and
    Chicken, "Nonparametric Statistical Methods", section 3.3. Minus infinity where 2**-count exceeds ``level``.
    """
    depth = int(np.searchsorted(rank_tail(count), level, side="right"))
    return float(averages[depth - 1]) if depth else -np.inf


def rank_p(averages: Array, count: int) -> float:
    """Return the chance of ranks as high as these where the centre is 0; zeros count against it."""
    return float(rank_tail(count)[np.count_nonzero(averages <= 0)]) if averages[-1] > 0 else 1.0


def flip_p(values: Array) -> float:
    """Return the share of all sign flips of ``values`` whose sum is at least theirs: Fisher's randomisation test.

    Both halves of the values are flipped apart and joined by counting, so that 20 values need 2 x 1,024 sums and
    not a million.
    """
    sizes, total = np.abs(values), float(np.sum(values))
    slack = 1e-9 * float(np.sum(sizes))
    if len(sizes) > EXACT_FLIPS:
        return float(1 + _sampled_flips(sizes, total - slack)) / (1 + _SAMPLED_FLIPS)
    left, right = _sums(sizes[: len(sizes) // 2]), np.sort(_sums(sizes[len(sizes) // 2 :]))
    below = np.searchsorted(right, total - slack - left, side="left")
    return float(np.sum(len(right) - below)) / (len(left) * len(right))


def _sampled_flips(sizes: Array, least: float) -> int:
    """Count those of the sampled sign flips whose sum is at least ``least``; a part of them in memory at a time."""
    random, found, left = np.random.default_rng(0), 0, _SAMPLED_FLIPS
    rows = max(1, _MOST_COINS // len(sizes))
    while left:
        coins = random.integers(0, 2, size=(min(rows, left), len(sizes))) * 2 - 1
        found += int(np.count_nonzero(coins @ sizes >= least))
        left -= len(coins)
    return found


def _sums(sizes: Array) -> Array:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums


@cache
def _triangle(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(count)
