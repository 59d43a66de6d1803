"""A mistake that an engine's name asks for is seen, told, and no failure; any other one is."""

import dataclasses

import pytest

from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import judge_case
from qwenperf.schema.records import CompileEvent, Outcome

COMPUTES = {"trigonometric": ("cosine from rotary.py:9",)}


@pytest.fixture
def judged(make_case):
    """Return the verdict of the rotary gate on an engine whose step computes a cosine."""

    def judge(engine, gate="rotary", budgets=None, **evidence):
        case = make_case(engine)
        program = dataclasses.replace(case.evidence.program, **COMPUTES)
        case = make_case(engine, evidence={"program": program, **evidence})
        verdicts = judge_case(case, parse(budgets or {}), {})
        return next(verdict for verdict in verdicts if verdict.gate == gate)

    return judge


def test_a_mistake_that_was_asked_for_is_told(judged):
    """The gate's own words stay."""
    verdict = judged("cached+rotary=step")
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.summary.startswith("on purpose (rotary=step): decode_step computes rotary angles anew")


@pytest.mark.parametrize("engine", ["cached", "cached+layers=scanned", "cached+donate=false"])
def test_any_other_engine_fails_for_it(judged, engine):
    """Another setting excuses another gate."""
    assert judged(engine).outcome is Outcome.FAIL


def test_a_budget_is_stronger_than_a_name(judged):
    """Who declares how many compiles there may be means it."""
    event = CompileEvent(function="decode_step", phase="steady", seconds=0.1)
    seen = {"compiles": (event,)}
    limit = {"*": {"compiles_steady": {"max": 0}}}
    assert judged("cached-host+position=static", "shapes", **seen).outcome is Outcome.SKIPPED
    assert judged("cached-host+position=static", "shapes", limit, **seen).outcome is Outcome.FAIL


def test_a_refused_call_is_no_setting(judged):
    """Nobody asks for an executable that is called with another shape."""
    event = CompileEvent(function="decode_step", phase="steady", seconds=0.0, refused=True)
    assert judged("cached-host+position=static", "shapes", compiles=(event,)).outcome is Outcome.FAIL
