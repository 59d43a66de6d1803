"""When a history has stopped: nobody notices that a number no longer comes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_GAPS = 4
"""Fewer gaps say nothing of how often points come."""

TIMES = 3.0
"""Longest usual gaps after which a point is late: a night without a run is none, three week-ends in a row are."""

_USUAL = 10
_HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Stale:
    """The last point is ``age_s`` old, and one was to be expected within ``expected_s``."""

    age_s: float
    expected_s: float
    typical_s: float


def stale(times: Sequence[float], now: float) -> Stale | None:
    """Say whether the next point is late; ``times`` are those of the points in seconds, in any order.

    Late is 3 times the longest of the usual gaps, which leave out the longest tenth: holidays do not count, week-ends
    do. Points of one hour are one: a run gives many cases, and a bisection many runs.
    """
    ordered = sorted(times)
    gaps = [after - before for before, after in pairwise(ordered) if after - before > _HOUR_S]
    if len(gaps) < LEAST_GAPS:
        return None
    # Of fewer than ten gaps none is left out: seven nights have one week-end.
    usual = sorted(gaps)[: len(gaps) - len(gaps) // _USUAL]
    expected, age = TIMES * usual[-1], now - ordered[-1]
    if age <= expected:
        return None
    return Stale(age_s=age, expected_s=expected, typical_s=statistics.median(gaps))
