"""Gate "scaling": the time of one decode step does not grow with the position.

A pre-allocated cache is read whole at each step, so its true growth is 0. Where every step works on the whole sequence,
its time goes with the position: 100 positions more are 100% at position 100 and 20% at position 500. The default
limit of 10% lies below that, and above what a quiet machine drifts by within one request.

Where the clock cannot tell, the program can, for the device: one program of straight code does the same work at every
position. What the host does between two steps it does not see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwenperf import units
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.gate.verdict import failed, inconclusive, passed, skipped
from qwenperf.schema.records import CaseRecord, Outcome, StreamEvidence, Verdict
from qwenperf.stats.summary import theil_sen

GATE = "scaling"
METRIC = "scaling_per_100_tokens"

DEFAULT_LIMIT = 0.10
"""Relative growth of the step time per 100 positions that is still called flat."""

DRIFT = -0.5
"""No step gets cheaper with the position: a fall by more than half per 100 is the machine's, and hides growth."""

_OPAQUE = ("while", "conditional", "custom-call")
"""Operations whose work may depend on data."""

MIN_STEPS = 8
_MAX_STEPS = 512


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Growth of the step time per 100 positions, relative to the median step, with a 95% interval.

    ``by_trial`` are the growths that each trial shows alone; ``slope_s`` is in seconds per position.
    """

    per_100: float
    low: float
    high: float
    by_trial: tuple[float, ...]
    slope_s: float
    median_s: float
    first: int
    last: int

    @property
    def half_width(self) -> float:
        """Distance from the estimate to the nearer unknown: how much noise hides."""
        return max(self.high - self.per_100, self.per_100 - self.low)


def growth(stream: StreamEvidence) -> Growth | None:
    """Return the growth over the positions of ``stream``: Theil-Sen over the medians of the trials.

    per_100 = 100 * slope(median over trials of step time, position) / median step time. ``None`` below 8 steps or
    where no time passed.
    """
    trials = np.asarray([step for step in stream.step_s if len(step) == len(stream.positions)])
    if len(trials) == 0 or len(stream.positions) < MIN_STEPS or float(np.median(trials)) <= 0:
        return None
    every = max(1, -(-len(stream.positions) // _MAX_STEPS))
    positions, trials = np.asarray(stream.positions, dtype=float)[::every], trials[:, ::every]
    steps = np.median(trials, axis=0)
    scale = 100 / float(np.median(steps))
    line = theil_sen(positions, steps)
    return Growth(
        per_100=scale * line.slope,
        low=scale * line.low,
        high=scale * line.high,
        by_trial=tuple(scale * theil_sen(positions, trial).slope for trial in trials),
        slope_s=line.slope,
        median_s=float(np.median(steps)),
        first=int(min(stream.positions)),
        last=int(max(stream.positions)),
    )


def judge(case: CaseRecord, budget: CaseBudget) -> Verdict:
    """Judge that the growth stays under the budget: 10% per 100 tokens unless declared otherwise.

    Fails when the whole interval lies above the limit and each trial shows it alone, so that one drifting trial is
    no growth; passes when the whole interval lies below, unless the steps get faster as no step does.
    """
    stream = case.evidence.stream
    if stream is None:
        advice = "Give the engine `stream`, or `prefill` and `decode_step`, so that single steps can be timed."
        return skipped(GATE, "single decode steps were not timed", advice=advice)
    seen = growth(stream)
    if seen is None:
        advice = f"Generate {MIN_STEPS + 1} tokens or more."
        return skipped(GATE, f"{len(stream.positions)} timed steps are too few for a slope", advice=advice)
    declared = budget.limits.get(METRIC)
    limit = DEFAULT_LIMIT if declared is None or declared.max is None else declared.max
    verdict = _verdict(seen, limit, budget.outside.get(METRIC, ""))
    if verdict.outcome is Outcome.INCONCLUSIVE and (program := one_program(case)):
        told = f"one program of straight code, {program}, serves every position: the device's work cannot grow"
        detail = [*verdict.detail, "the host's work between two steps is not seen by this"]
        return passed(GATE, f"{told}; by the clock alone: {verdict.summary}", detail, **verdict.data)
    return verdict


def one_program(case: CaseRecord) -> str | None:
    """Return the name of the decode program if it was compiled once for all positions and is straight code.

    A loop may run as often as its data say, a conditional take another branch, and a custom call do anything: a program
    with one of them proves nothing.
    """
    program = case.evidence.program
    if program is None or not program.operations or any(program.operations.get(name, 0) for name in _OPAQUE):
        return None
    named = {program.name, f"jit({program.name})"}
    compiled = [event for event in case.evidence.compiles if event.function in named]
    once = len(compiled) == 1 and not any(event.refused or event.phase == "steady" for event in case.evidence.compiles)
    return program.name if once else None


def _verdict(seen: Growth, limit: float, outside: str) -> Verdict:
    interval = f"95% interval {_percent(seen.low)} to {_percent(seen.high)}"
    told = f"a step grows by {_percent(seen.per_100)} per 100 tokens ({interval})"
    where = f"{units.seconds(abs(seen.slope_s))} a position over {units.seconds(seen.median_s)} a step"
    detail = [f"{'+' if seen.slope_s >= 0 else '-'}{where}, positions {seen.first} to {seen.last}"]
    detail += [f"budget skipped, default used: {outside}"] if outside else []
    data = {"growth": seen.per_100, "low": seen.low, "high": seen.high, "limit": limit, "by_trial": list(seen.by_trial)}
    if seen.low > limit and min(seen.by_trial) > limit:
        advice = (
            "Something of the size of the sequence is copied or computed anew in each step: look at the cache first."
        )
        return failed(GATE, f"{told}, above its budget of {_percent(limit)}", detail, advice, **data)
    if seen.high < DRIFT:
        advice = "The machine was busy, or warm-up too short: measure again on a quieter machine, with more new tokens."
        return inconclusive(GATE, f"{told}: steps that get faster hide growth", detail, advice, **data)
    if seen.high <= limit:
        return passed(GATE, f"{told}, within {_percent(limit)}", detail, **data)
    least = _percent(limit + seen.half_width)
    advice = "More new tokens narrow it fastest (with the power 1.5), then more trials or a quieter machine."
    summary = f"too noisy for a budget of {_percent(limit)}: {told}; growth would be seen from about {least}"
    return inconclusive(GATE, summary, detail, advice, smallest_effect=limit + seen.half_width, **data)


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}%" if abs(value) < 1 else f"{100 * value:+.0f}%"
