import dataclasses

import pytest

from qwenperf.gate import verdict
from qwenperf.schema.records import Outcome, Status


def case_with(make_case, outcome, **changes):
    return make_case(
        verdicts=(
            verdict.passed("tokens", "fine"),
            dataclasses.replace(verdict.passed("shapes", "x"), outcome=outcome),
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("outcome", "warn", "fail"),
    [
        (Outcome.PASS, 0, 0),
        (Outcome.SKIPPED, 0, 0),
        (Outcome.IMPROVED, 0, 0),
        (Outcome.INCONCLUSIVE, 0, 3),
        (Outcome.FAIL, 1, 1),
    ],
)
def test_the_worst_verdict_makes_the_exit_code(make_case, make_run, outcome, warn, fail):
    """Inconclusive ends with 0 unless it is asked to fail."""
    run = make_run(case_with(make_case, outcome))
    assert verdict.exit_code(run) == warn
    assert verdict.exit_code(run, inconclusive="fail") == fail


@pytest.mark.parametrize("status", [Status.FAILED, Status.TIMED_OUT, Status.MISSING, Status.INTERRUPTED])
def test_a_case_that_was_not_measured_is_not_green(make_case, make_run, status):
    """Also beside one that was."""
    good = make_case()
    broken = make_case("naive", status=status)
    assert verdict.exit_code(make_run(good, broken)) == 5
    assert verdict.exit_code(make_run(good, case_with(make_case, Outcome.FAIL), broken)) == 5


def test_a_declared_case_that_is_missing_is_not_green(make_case, make_run):
    """Declared against measured."""
    assert verdict.exit_code(make_run(make_case(), declared=("4x128/cached/b1-p16-n40-f32", "another"))) == 5
    assert verdict.exit_code(make_run()) == 5


def test_a_refused_call_counts_as_a_failed_gate(make_case, make_run):
    """The case ended there, and the gate says why."""
    assert verdict.exit_code(make_run(case_with(make_case, Outcome.FAIL, status=Status.FAILED))) == 1


def test_an_interrupted_run_says_so(make_case, make_run):
    """Whatever else was found."""
    assert verdict.exit_code(make_run(case_with(make_case, Outcome.FAIL), interrupted=True)) == 130


def test_codes_have_an_order(make_case, make_run):
    """70, 2, 5, 1, 4, 3, 0; a number that nobody knows is an internal error."""
    order = [70, 2, 5, 1, 4, 3, 0]
    assert [verdict.strongest(order[i:]) for i in range(len(order))] == order
    assert verdict.strongest([1, 99]) == 70
    assert verdict.strongest([]) == 0
    assert verdict.exit_code(make_run(case_with(make_case, Outcome.FAIL)), others=[4]) == 1
    assert verdict.exit_code(make_run(make_case()), others=[2]) == 2


def test_the_worst_outcome_stands_for_all():
    """Skipped only when nothing else was said; nobody judged is nothing at all."""
    assert verdict.worst([Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE]) is Outcome.FAIL
    assert verdict.worst([Outcome.PASS, Outcome.SKIPPED]) is Outcome.PASS
    assert verdict.worst([Outcome.SKIPPED]) is Outcome.SKIPPED
    assert verdict.worst([]) is None
