"""Trials of one round, taken by turns: what a side took in it."""

from __future__ import annotations

import math
from collections.abc import Sequence


def side_time(times: Sequence[float], order: str, letter: str) -> float:
    """Return the geometric mean of the trials that were ``letter``'s turn: a round's ratio is that of neighbours.

    0 where a clock was too coarse to see one of them.
    """
    own = [seconds for seconds, turn in zip(times, order, strict=True) if turn == letter]
    return math.exp(sum(map(math.log, own)) / len(own)) if min(own) > 0 else 0.0
