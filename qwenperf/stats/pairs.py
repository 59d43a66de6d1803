"""What one process pair says: the median log ratio of head to base over its rounds. Knows nothing of many pairs.

The pair is the unit of every timed verdict: rounds of one pair share two processes and their luck, so that more rounds
sharpen a pair and never count as more evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qwenperf.errors import MeasurementError

Times = Sequence[float | None]
"""One time a round, in any one unit; ``None`` where the round was lost."""


@dataclass(frozen=True, kw_only=True)
class PairEstimate:
    """Log ratios head/base of one pair; ``cpu`` is ``None`` where CPU time was not read.

    ``rounds`` were used and ``missing`` were lost on one side or both.
    """

    wall: float
    cpu: float | None
    rounds: int
    missing: int


def estimate(base: Times, head: Times, base_cpu: Times | None = None, head_cpu: Times | None = None) -> PairEstimate:
    """Return the median over rounds of log(head / base), of wall time and of CPU time.

    A round that one side lost is left out of both. CPU time that was never read is ``None`` as a whole.

    Raises:
      MeasurementError: sides of different lengths, a time that is not finite or not above 0, no round on both sides,
        or CPU time of one side only.
    """
    wall = _log_ratios("wall", base, head)
    if not wall:
        raise MeasurementError(f"none of the {len(base)} rounds of the pair was timed on both sides.")
    if (base_cpu is None) != (head_cpu is None):
        known = "head" if base_cpu is None else "base"
        raise MeasurementError(f"CPU time was read on {known} only.", advice="Read it on both sides or on none.")
    cpu = None if base_cpu is None or head_cpu is None else _log_ratios("CPU", base_cpu, head_cpu)
    return PairEstimate(
        wall=float(np.median(wall)),
        cpu=float(np.median(cpu)) if cpu else None,
        rounds=len(wall),
        missing=len(base) - len(wall),
    )


def relative(log_ratio: float) -> float:
    """Return a log ratio as a relative difference: 0.05 is 5% slower."""
    return math.expm1(log_ratio) if log_ratio < math.log(1e300) else math.inf


def log_ratio(difference: float) -> float:
    """Return a relative difference as a log ratio: the inverse of ``relative``.

    Raises:
      MeasurementError: not a number, or -100% and below, which no time can be.
    """
    if not difference > -1:
        raise MeasurementError(f"a relative difference of {difference} is none that a time can have.")
    return math.log1p(difference)


def _log_ratios(clock: str, base: Times, head: Times) -> list[float]:
    if len(base) != len(head):
        raise MeasurementError(
            f"the pair has {len(base)} rounds of {clock} time on base and {len(head)} on head.",
            advice="Give one entry a round on each side, None where it was lost.",
        )
    rounds = enumerate(zip(base, head, strict=True))
    return [
        math.log(_checked(clock, index, "head", after)) - math.log(_checked(clock, index, "base", before))
        for index, (before, after) in rounds
        if before is not None and after is not None
    ]


def _checked(clock: str, index: int, side: str, time: float) -> float:
    if not (math.isfinite(time) and time > 0):
        raise MeasurementError(
            f"{clock} time of {side} in round {index} is {time:g}; a time is finite and above 0.",
            advice="Give None for a round that was lost.",
        )
    return time
