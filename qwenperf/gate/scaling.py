"""Gate "scaling": the time of one decode step does not grow with the position.

A pre-allocated cache is read whole at each step, so its true growth is 0. Where every step works on the whole sequence,
its time goes with the position: 100 positions more are 100% at position 100 and 20% at position 500. The default
limit of 10% lies below that, and above what a quiet machine drifts by within one request.

A number whose interval has the limit in it is never a pass. Where the clock cannot tell, the verdict says what the
program tells, for the device: one program of straight code does the same work at every position. What the host does
between two steps that does not show, so that it is evidence and no verdict.
"""

from __future__ import annotations

from dataclasses import replace

from qwenperf import units
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.gate.verdict import failed, inconclusive, passed, skipped
from qwenperf.schema.records import CaseRecord, Outcome, Verdict
from qwenperf.stats.growth import Growth, growth

GATE = "scaling"
METRIC = "scaling_per_100_tokens"

DEFAULT_LIMIT = 0.10
"""Relative growth of the step time per 100 positions that is still called flat."""

DRIFT = -0.5
"""No step gets cheaper with the position: a fall by more than half per 100 is the machine's, and hides growth."""

LEAST_SEEN = 0.05
"""What a growth must add to a step, within the positions that were timed, to be told from a machine's drift.

Fourteen steps that slowed down by a tenth, in each of five trials, were 85% per 100 positions of one program that
reads the same bytes at each (``qwenperf run --suite gpt2``, 2026-11-28, 2 cores of an AMD EPYC virtual machine).
"""

_OPAQUE = ("while", "conditional", "custom-call")
"""Operations whose work may depend on data."""

MIN_STEPS = 8


def judge(case: CaseRecord, budget: CaseBudget) -> Verdict:
    """Judge that the growth stays under the budget: 10% per 100 tokens unless declared otherwise.

    Fails when the whole interval lies above the limit, each trial shows it alone, so that one drifting trial is no
    growth, and it adds ``LEAST_SEEN`` to a step within what was timed; passes when the whole interval lies below,
    unless the steps get faster as no step does. Inconclusive otherwise, with what the program tells.
    """
    stream = case.evidence.stream
    if stream is None and case.spec.get("requests_only"):
        return skipped(GATE, "the case times whole requests only", advice="Without `requests_only` steps are timed.")
    if stream is None:
        advice = "Give the engine `stream`, or `prefill` and `decode_step`, so that single steps can be timed."
        return skipped(GATE, "single decode steps were not timed", advice=advice)
    enough = len(stream.positions) >= MIN_STEPS
    seen = growth(stream.positions, stream.step_s) if enough else None
    if seen is None:
        advice = f"Generate {MIN_STEPS + 1} tokens or more."
        return skipped(GATE, f"{len(stream.positions)} timed steps are too few for a slope", advice=advice)
    declared = budget.limits.get(METRIC)
    limit = DEFAULT_LIMIT if declared is None or declared.max is None else declared.max
    verdict = _verdict(seen, limit, budget.outside.get(METRIC, ""))
    if verdict.outcome is Outcome.INCONCLUSIVE and (program := one_program(case)):
        told = f"one program of straight code, {program}, serves every position: the device's work cannot grow"
        detail = (*verdict.detail, told, "the host's work between two steps is not seen by this")
        return replace(verdict, detail=detail, data={**verdict.data, "one_program": program})
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
    interval = f"{100 * seen.coverage:.0f}% interval {_percent(seen.low)} to {_percent(seen.high)}"
    told = f"a step grows by {_percent(seen.per_100)} per 100 tokens ({interval})"
    where = f"{units.seconds(abs(seen.slope_s))} a position over {units.seconds(seen.median_s)} a step"
    detail = [f"{'+' if seen.slope_s >= 0 else '-'}{where}, positions {seen.first} to {seen.last}"]
    detail += [f"budget skipped, default used: {outside}"] if outside else []
    data = {"growth": seen.per_100, "low": seen.low, "high": seen.high, "limit": limit, "by_trial": list(seen.by_trial)}
    least_seen = seen.low * (seen.last - seen.first) / 100
    if seen.low > limit and min(seen.by_trial) > limit and least_seen > LEAST_SEEN:
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
