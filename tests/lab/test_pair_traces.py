"""Both sides of a comparison are traced alike: requests as they are timed, or steps; what goes wrong is a remark."""

import contextlib
import os
import sys

import pytest

from qwenperf.lab.pair_traces import PairTraces
from qwenperf.lab.subject import Subject

TRACER = """
import json, os, sys
commands, answers = int(sys.argv[-2]), int(sys.argv[-1])
for line in os.fdopen(commands):
    asked = json.loads(line)
    file = os.path.join(asked["trace"], asked["session"])
    answer = {"trace": file, "summary": {"of": asked["of"]}, "lost": []}
    if sys.argv[1] == "fails":
        answer = {"error": "no profiler"}
    if sys.argv[1] == "small" and asked["of"] == "requests":
        answer = {"trace": None, "summary": None, "lost": ["too large."]}
    os.write(answers, json.dumps(answer).encode() + b"\\n")
"""
CASES = ("one", "other")


@pytest.fixture
def traced(tmp_path):
    """Trace two cases with sides that behave as they are told, of which all, or some, can trace whole requests."""

    def traced(whole=("base", "head"), **behaviours):
        traces = PairTraces()
        for side in ("base", "head"):
            traces.hear(side, {"traces": True, "whole": side in whole})
        with contextlib.ExitStack() as stack:
            subjects = {
                side: stack.enter_context(
                    Subject.start(
                        side, [sys.executable, "-c", TRACER, behaviours.get(side, "works")],
                        log=tmp_path / side, environ=dict(os.environ), cwd=tmp_path,
                    )
                )
                for side in ("base", "head")
            }  # fmt: skip
            traces.take(CASES, subjects, tmp_path, 30.0)
        return traces

    return traced


def kinds(traces):
    return {case: {side: told["of"] for side, told in by.items()} for case, by in traces.summaries.items()}


def test_requests_are_traced_as_they_are_timed(traced):
    found = traced()
    assert kinds(found) == {case: {"base": "requests", "head": "requests"} for case in CASES}
    assert found.files["one"] == {"base": "one-base", "head": "one-head"}
    assert found.remarks == {}


def test_steps_are_traced_of_both_sides_where_one_cannot_trace_requests(traced):
    """An older side does not know how; another one's requests are too large for a trace."""
    assert kinds(traced(whole=("head",))) == {case: {"base": "steps", "head": "steps"} for case in CASES}
    found = traced(head="small")
    assert kinds(found) == {case: {"base": "steps", "head": "steps"} for case in CASES}
    assert found.files["one"] == {"base": "one-steps-base", "head": "one-steps-head"}
    assert found.remarks == {case: {"head": ["too large."]} for case in CASES}


def test_a_side_that_fails_to_answer_is_asked_once_and_says_why(traced):
    """The other side's traces are kept."""
    found = traced(base="fails")
    assert kinds(found) == {case: {"head": "requests"} for case in CASES}
    assert found.remarks == {"one": {"base": ["base: no profiler"]}}
