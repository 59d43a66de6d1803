"""A verdict of a comparison in whole sentences, for whoever has never seen one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qwenperf.gate.speed import GATE as SPEED
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import Outcome, Verdict

_MEANS = {
    Outcome.PASS: "It passed: the data rule out a slowdown as large as the margin.",
    Outcome.FAIL: "It failed: head is slower, by the margin or more, and fresh processes found it again.",
    Outcome.IMPROVED: "It improved: head is faster, by the margin or more.",
    Outcome.INCONCLUSIVE: "It is inconclusive: neither a slowdown of the margin nor none at all is ruled out.",
    Outcome.SKIPPED: "It was skipped: there was nothing to judge by.",
}

_TOLD = ("cpu_model", "cores", "device_kind", "governor", "kernel", "python", "jax", "jaxlib")


def explain(comparison: ComparisonRecord, case: ComparedCase, verdict: Verdict) -> Iterator[str]:
    """Yield sentences: what was compared, what was seen, what it means, what to do."""
    yield f"{case.id}, gate {verdict.gate}: {verdict.outcome.value}."
    yield f"Base is {comparison.base.label}; head is {comparison.head.label}."
    yield f"Seen: {verdict.summary}."
    if verdict.gate == SPEED:
        yield from _speed(comparison, case, verdict)
        yield from _where(comparison.head.environment)
    yield from (f"Note: {line}." for line in verdict.detail)
    if verdict.advice:
        yield f"To do: {verdict.advice}"


def _speed(comparison: ComparisonRecord, case: ComparedCase, verdict: Verdict) -> Iterator[str]:
    first: Mapping[str, Any] = verdict.data.get("stage_1", {})
    if verdict.outcome is Outcome.INCONCLUSIVE and first.get("outcome") == Outcome.FAIL:
        yield "The first pairs found a slowdown. It is red only once fresh processes find it again."
    else:
        yield _MEANS[verdict.outcome]
    if not first:
        return
    rounds, trial = comparison.plan.get("rounds"), comparison.plan.get("trial_s")
    yield (
        f"Each of the {first['pairs']} pairs started a fresh process of either side, in an order drawn by lot, and"
        f" timed them by turns: {rounds} rounds of four trials of {case.repeats} requests (about {trial} s each)."
        " A pair counts once: the median of its rounds."
    )
    if first.get("smallest_effect") is not None:
        yield f"In noise like this a slowdown of {first['smallest_effect']:.1%} is found in four of five tries."
    if verdict.data.get("cpu") is not None:
        yield f"CPU time, which other work disturbs less, changed by {verdict.data['cpu']:+.1%}."
    yield from _carried(verdict)
    second: Mapping[str, Any] = verdict.data.get("stage_2", {})
    if second:
        saw = "is not over" if second.get("estimate") is None else f"saw {second['estimate']:+.1%}"
        yield f"The confirmation ({second['pairs']} fresh pairs) {saw}."


def _where(environment: Mapping[str, Any]) -> Iterator[str]:
    """Yield where it was measured, as far as that is known: the figures are that machine's."""
    known = {name: environment[name] for name in _TOLD if environment.get(name)}
    if known:
        yield f"Measured on: {', '.join(f'{name} {value}' for name, value in known.items())}."


def _carried(verdict: Verdict) -> Iterator[str]:
    """Yield what a verdict carries beside its decision: pairs, anchors, traces."""
    samples: Mapping[str, Any] = verdict.data.get("samples", {})
    if samples.get("stage_1"):
        yield f"The pairs in the order of time: {' '.join(f'{value:+.1%}' for value in samples['stage_1'])}."
    anchors: Mapping[str, float] = verdict.data.get("anchors", {})
    if anchors:
        told = " and ".join(f"{name} {value:+.1%}" for name, value in anchors.items())
        yield f"Kernels that no change touches differed by {told} in the median: far from 0, the machine took sides."
    traces: Mapping[str, str] = verdict.data.get("traces", {})
    if traces:
        yield f"A few steps of it were traced: {' and '.join(f'{file} ({side})' for side, file in traces.items())}."
