"""How many of the sorted pairwise slopes to leave out at each end: the distribution of Kendall's score.

If x explains nothing, every order of y is as likely. D counts the pairs with different x that an order turns round;
it lies between 0 and the number N of such pairs, symmetrically.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

EXACT = 40
"""Points up to which D is counted; beyond, its distribution is normal to the third digit."""


def depth(groups: Sequence[int], confidence: float) -> tuple[int, float]:
    """Return the deepest k with 1 - 2 * P(D <= k) >= ``confidence``, and that probability.

    ``groups`` are the sizes of the groups of equal x. Where not even k = 0 reaches ``confidence``, 0 and what it has.
    """
    return _depth(tuple(groups), confidence)


@lru_cache(maxsize=64)
def _depth(groups: tuple[int, ...], confidence: float) -> tuple[int, float]:
    """Find the depth once for series of the same x: trials of one case have the same positions."""
    tail = _exact_tail(groups) if sum(groups) <= EXACT else _normal_tail(groups)
    # Of hundreds of points there are tens of thousands of depths, and each covers less than the one before it.
    deeper = range(1, (_pairs(groups) + 1) // 2)
    best = bisect_left(deeper, x=True, key=lambda k: 1 - 2 * tail(k) < confidence)
    return best, max(0.0, 1 - 2 * tail(best))


def counts(groups: Sequence[int]) -> list[int]:
    """Return of how many orders D is 0, 1, ..., N, up to a common factor.

    Their generating function is the q-multinomial coefficient [n]! / ([t1]! [t2]! ...), [m] = 1 + q + ... + q^(m-1):
    Stanley, "Enumerative Combinatorics" 1, section 1.7.
    """
    result, placed = [1], 0
    for size in groups:
        for index in range(1, size + 1):
            placed += 1
            result = _divided(_multiplied(result, placed), index)
    return result


def _multiplied(polynomial: list[int], size: int) -> list[int]:
    """Multiply by 1 + q + ... + q^(size - 1)."""
    sums = list(accumulate([*polynomial, *[0] * (size - 1)]))
    return [total - (sums[i - size] if i >= size else 0) for i, total in enumerate(sums)]


def _divided(polynomial: list[int], size: int) -> list[int]:
    """Divide by 1 + q + ... + q^(size - 1), which leaves no rest."""
    result: list[int] = []
    for i in range(len(polynomial) - size + 1):
        result.append(polynomial[i] - sum(result[max(0, i - size + 1) : i]))
    return result


def _exact_tail(groups: Sequence[int]) -> Callable[[int], float]:
    found = counts(groups)
    below, total = list(accumulate(found)), sum(found)
    return lambda k: below[k] / total


def _normal_tail(groups: Sequence[int]) -> Callable[[int], float]:
    n = sum(groups)
    ties = sum(size * (size - 1) * (2 * size + 5) for size in groups)
    # The score is N - 2 * D, hence half of its deviation; and D is whole, hence the half.
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18) / 2
    normal = NormalDist(_pairs(groups) / 2, deviation)
    return lambda k: normal.cdf(k + 0.5)


def _pairs(groups: Sequence[int]) -> int:
    n = sum(groups)
    return (n * (n - 1) - sum(size * (size - 1) for size in groups)) // 2
