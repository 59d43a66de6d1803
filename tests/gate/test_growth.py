from dataclasses import replace

import pytest

from qwenperf.gate.budget_set import CaseBudget
from qwenperf.gate.growth import STATE_GROWS
from qwenperf.gate.limits import Limit
from qwenperf.gate.shapes import judge
from qwenperf.schema.records import CaseRecord, CompileCause, CompileEvent, Evidence, Finding, Outcome, Severity, metric


def compiled(length, *, phase="cold", refused=False, what="shape"):
    cause = CompileCause(argument="state.keys", what=what, before="f32[1,5]", after=f"f32[1,{length}]")
    return CompileEvent(
        function="decode_step", phase=phase, seconds=0.1, refused=refused, location="loop.py:7", causes=(cause,)
    )


def case(*events, new_tokens=8):
    return CaseRecord(
        id="mine",
        spec={"workload": {"new_tokens": new_tokens}},
        metrics={"compiles_steady": metric("compiles_steady", 0)},
        evidence=Evidence(compiles=events),
    )


def test_a_state_that_grows_within_a_request_fails_though_warm_up_met_every_length():
    """The function, its argument, the old and the new shape and the line are in the message."""
    verdict = judge(case(*(compiled(length) for length in range(6, 12))), CaseBudget())
    assert verdict.outcome is Outcome.FAIL
    told = "decode_step compiled 6 times within one request: argument `state.keys` changed shape f32[1,5] -> f32[1,11]"
    assert verdict.summary == f"{told}, called from loop.py:7"
    assert "update it in place" in verdict.advice


@pytest.mark.parametrize(
    "events",
    [
        [compiled(6), compiled(7)],
        [compiled(length, phase="warmup") for length in range(6, 12)],
        [compiled(length, what="dtype") for length in range(6, 12)],
    ],
)
def test_a_few_buckets_or_other_causes_are_no_growth(events):
    """Two lengths may be buckets; later phases and other causes are judged elsewhere."""
    assert judge(case(*events), CaseBudget()).outcome is Outcome.PASS


def static(before, after, *, argument="args[2]"):
    causes = (CompileCause(argument=argument, what="static", before=str(before), after=str(after)),)
    return replace(compiled(6), causes=causes)


def test_a_position_that_is_static_fails_though_warm_up_met_every_value():
    """One program a position, and the advice is to pass an array."""
    verdict = judge(case(*(static(position, position + 1) for position in range(5, 10))), CaseBudget())
    assert verdict.outcome is Outcome.FAIL
    told = "decode_step compiled 5 times within one request: argument `args[2]` changed static 9 -> 10"
    assert verdict.summary == f"{told}, called from loop.py:7"
    assert "Pass it as an array" in verdict.advice


@pytest.mark.parametrize(
    "events",
    [
        [compiled(1) for _ in range(24)],
        [static(layer, layer + 1) for layer in range(2)] + [static(0, layer) for layer in range(2, 24)],
        [replace(compiled(length), location=f"model.py:{length}") for length in range(6, 12)],
        [compiled(6, what="new") for _ in range(24)],
    ],
)
def test_a_model_of_many_layers_is_no_growth(events):
    """A program a layer, a static layer number, a helper on many lines and functions of one name are all bounded."""
    judged = case(*events)
    judged = replace(judged, spec={"workload": {"new_tokens": 8, "prompt_length": 3}})
    assert judge(judged, CaseBudget()).outcome is Outcome.PASS


def test_a_long_request_may_have_several_buckets():
    """Growth is a new shape at least at every second token."""
    events = [compiled(length) for length in (16, 32, 48, 64)]
    assert judge(case(*events, new_tokens=64), CaseBudget()).outcome is Outcome.PASS
    assert judge(case(*events, new_tokens=8), CaseBudget()).outcome is Outcome.FAIL


def test_a_state_that_was_seen_to_grow_fails_though_nothing_compiled():
    """An engine that met every length before it was measured compiles nothing, and is no better for it."""
    data = {"steps": 2, "argument": "state.keys", "before": "f32[1,5]", "after": "f32[1,6]"}
    finding = Finding(code=STATE_GROWS, severity=Severity.WARNING, message="the state changes.", data=data)
    warm = replace(case(), findings=(finding,))
    verdict = judge(warm, CaseBudget())
    assert (verdict.outcome, dict(verdict.data)) == (Outcome.FAIL, data)
    assert "update it in place" in verdict.advice
    allowed = CaseBudget(limits={"compiles_steady": Limit(metric="compiles_steady", max=2)})
    assert judge(warm, allowed).outcome is Outcome.PASS


def test_a_budget_may_allow_growth():
    """Whoever allows compiles gets them."""
    events = [compiled(length) for length in range(6, 12)]
    budget = CaseBudget(limits={"compiles_steady": Limit(metric="compiles_steady", max=6)})
    assert judge(case(*events), budget).outcome is Outcome.PASS


def test_a_refused_call_fails_whenever_it_happened():
    """An executable that refuses the first request's second step never gets to a steady phase."""
    verdict = judge(case(compiled(6, refused=True)), CaseBudget())
    assert verdict.outcome is Outcome.FAIL
    assert "refuses: argument `state.keys` changed shape" in verdict.summary


def test_a_compile_a_step_that_jax_cannot_explain_is_growth():
    """JAX 0.12 has no words for a static argument; fewer compiles than steps are no growth."""
    told = "TRACING CACHE MISS: cache miss explanation unavailable"
    event = CompileEvent(function="step", phase="cold", seconds=0.1, location="loop.py:7", explanation=told)
    verdict = judge(case(*[event] * 6), CaseBudget())
    assert verdict.outcome is Outcome.FAIL
    assert "step compiled 6 times within one request: once a step, and JAX does not say why" in verdict.summary
    assert "Pass it as an array" in verdict.advice
    assert judge(case(*[event] * 5), CaseBudget()).outcome is Outcome.PASS
    explained = replace(event, explanation="never seen function")
    assert judge(case(*[explained] * 6), CaseBudget()).outcome is Outcome.PASS
