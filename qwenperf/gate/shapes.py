"""Gate "shapes": after warm-up no program is compiled, so every step of every request has shapes seen before.

A state that grows within a request fails too, and so does a static position, though warm-up meets all their values, or
met them before: see ``growth``.
A program taken from the persistent cache counts too: its signature was new all the same. So does a call that an
ahead-of-time executable refused, whenever it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qwenperf import units
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.gate.growth import growing, growing_cause, growing_state
from qwenperf.gate.verdict import failed, passed, skipped
from qwenperf.schema.records import CaseRecord, CompileCause, CompileEvent, Verdict

GATE = "shapes"
METRIC = "compiles_steady"

_MAX_LINES = 5

_ADVICE = {
    "shape": "Pad it or put it into buckets, so that each step has the shape that was warmed up.",
    "dtype": "Cast it once, before the loop.",
    "weak_type": "A bare Python number is weakly typed: wrap it, as in jnp.asarray(x, dtype).",
    "static": "Pass it as an array, as in jnp.int32(position): a static argument is one program a value.",
    "sharding": "Place it as in warm-up (jax.device_put with that sharding) before the first timed call.",
    "new": "A function first seen after warm-up: build each jit once, outside the loop, and warm it up.",
}
_GROWS = "Allocate it once at full length and update it in place, so that each step has the shape of the one before."
_NO_CAUSE = (
    "Nothing says which argument changed: a jit built anew in each call, or a function that warm-up never reached."
)


def judge(case: CaseRecord, budget: CaseBudget) -> Verdict:
    """Judge that no more programs were compiled in phase steady than the budget allows: none, unless it says so."""
    events = [event for event in case.evidence.compiles if event.phase == "steady" or event.refused]
    counted = case.metrics.get(METRIC)
    if counted is None and not events:
        return skipped(GATE, "compiles after warm-up were not counted", advice="Measure the case with a steady phase.")
    limit = budget.limits.get(METRIC)
    allowed = int(limit.max or 0) if limit else 0
    count = max(len(events), int(counted.value) if counted else 0)
    grown = growing(case)
    if count <= allowed and len(grown) > allowed:
        return _grows(grown)
    state = growing_state(case)
    if count <= allowed and state and state.data["steps"] > allowed:
        return failed(GATE, f"one program a length: {state.message}", advice=_GROWS, **state.data)
    if count <= allowed:
        return passed(GATE, _kept(case, count), count=count, allowed=allowed)
    return failed(
        GATE,
        _first_line(events, count) + (f" ({allowed} allowed)" if allowed else ""),
        _lines(events),
        advice=_advice(events),
        count=count,
        allowed=allowed,
        functions=dict(Counter(event.function for event in events)),
    )


def _grows(events: Sequence[CompileEvent]) -> Verdict:
    cause = growing_cause(events)
    place = f", called from {events[-1].location}" if events[-1].location else ""
    summary = f"{events[0].function} compiled {len(events)} times within one request: {describe_cause(cause)}{place}"
    functions = {events[0].function: len(events)}
    advice = _ADVICE["static"] if cause.what in {"static", "unexplained"} else _GROWS
    return failed(GATE, summary, _lines(events), advice=advice, count=len(events), functions=functions)


def describe_cause(cause: CompileCause) -> str:
    """Write a cause for people: ``argument `cache.k[0]` changed shape f32[1,17] -> f32[1,18]``."""
    if cause.what == "unexplained":
        return "once a step, and JAX does not say why"
    if cause.what == "new":
        return f"`{cause.argument}` was never seen before" if cause.argument else "it was never seen before"
    kind = cause.what.replace("_", " ")
    return f"argument `{cause.argument}` changed {kind} {cause.before or '?'} -> {cause.after or '?'}"


def _kept(case: CaseRecord, count: int) -> str:
    before = sum(event.phase in {"cold", "warmup"} for event in case.evidence.compiles)
    first = f" ({before} before)" if before else ""
    return f"{count or 'no'} program{'s' * (count != 1)} compiled after warm-up{first}"


def _first_line(events: Sequence[CompileEvent], count: int) -> str:
    if not events:
        return f"{count} programs were compiled after warm-up; the record does not say which"
    function, times = Counter(event.function for event in events).most_common(1)[0]
    told = next((event for event in events if event.function == function and event.causes), None)
    event = told or next(event for event in events if event.function == function)
    cause = f": {describe_cause(event.causes[0])}" if event.causes else ""
    place = f", called from {event.location}" if event.location else ""
    others = len({event.function for event in events}) - 1
    more = f"; and {others} more function{'s' * (others > 1)}" if others else ""
    return f"{function} {_verb(event, times)}{cause}{place}{more}"


def _verb(event: CompileEvent, times: int) -> str:
    often = f"{times} time{'s' * (times != 1)}"
    when = "after warm-up" if event.phase == "steady" else f"in phase {event.phase}"
    if event.refused:
        return f"was called {often} {when} with arguments that its compiled program refuses"
    return f"was loaded from the persistent cache {often} {when}" if event.cache_hit else f"compiled {often} {when}"


def _lines(events: Sequence[CompileEvent]) -> list[str]:
    """Return lines for each function, most compiles first."""
    lines = []
    for function, times in Counter(event.function for event in events).most_common():
        own = [event for event in events if event.function == function]
        places = ", ".join(dict.fromkeys(event.location for event in own if event.location))
        took = units.seconds(sum(event.seconds for event in own))
        lines.append(f"{function}: {times} in {took}" + (f", called from {places}" if places else ""))
        changes = [describe_cause(cause) for event in own for cause in event.causes]
        changes = changes or [event.explanation for event in own if event.explanation]
        lines += _cut([f"  {change}" for change in dict.fromkeys(changes)])
    return lines


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], f"  and {more} more"] if more > 1 else lines


def _advice(events: Sequence[CompileEvent]) -> str:
    kinds = Counter(cause.what for event in events for cause in event.causes)
    return _ADVICE.get(kinds.most_common(1)[0][0], "") if kinds else _NO_CAUSE
