"""Quantiles of Student's t for whole degrees of freedom, without scipy, whose import takes longer than a verdict."""

from __future__ import annotations

import math
from functools import cache


def upper_tail(t: float, freedom: int) -> float:
    """Return P(T > t) for t >= 0: the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    odd = freedom % 2
    if odd:
        term = cosine
        for k in range(1, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = 2 / math.pi * (angle + math.sin(angle) * total)
    else:
        for k in range(0, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = math.sin(angle) * total
    return max(0.0, (1 - inside) / 2)


@cache
def quantile(level: float, freedom: int) -> float:
    """Return the t that is exceeded with probability ``level`` (above 1e-12, at most a half), by bisection."""
    low, high = 0.0, 2.0
    while upper_tail(high, freedom) > level and high < 1e9:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, freedom) > level else (low, middle)
    return (low + high) / 2
