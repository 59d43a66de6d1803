"""A budget is of compiled programs, or of cases that are measured, whatever its model is called."""

import pytest

from qwenperf.gate import aot_budget, budget
from qwenperf.gate.target_globs import is_of_programs


@pytest.mark.parametrize(
    "pattern",
    [
        "*@*", "*@*/decode_step", "4x128/*@v5e-1/prefill", "*@v7x-*/decode_step", "*@tpu7x:2x2x1/*", "*@cpu/*",
        "*@c*", "*@v[57]*", "*@V5E-1", "*@v5*/decode_step", "*@ironwood-4/*", "*@v5litepod-16/*", "*@tpu-v5e-1/*",
        "owner/name@main/*@v5e-1/decode_step", "models@home/x/*@*", "step@cpu/step",
        "*@v9-*", "*@v5e/decode_step",
    ],
)  # fmt: skip
def test_what_is_behind_the_last_at_sign_can_be_a_target(pattern):
    """Such as one that nobody knows: it matches no program, and that is told."""
    assert is_of_programs(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "4x128/*", "*", "owner/name@main/*", "owner/name@v1.2/cached/*", "owner/name@3f2a9c/cached/b1-p16-n8-f32",
        "/data/models@home/small/*", "owner/name@*/cached/*", "owner/name@main*/cached/*", "test_x.py::test[a@b]/*",
    ],
)  # fmt: skip
def test_a_model_with_an_at_sign_is_a_model(pattern):
    """Its cases are measured, and its budgets judged."""
    assert not is_of_programs(pattern)


def test_the_budget_of_a_model_with_an_at_sign_is_one_of_runs():
    """And is checked as one."""
    tables = {"owner/name@main/*": {"compiles_steady": {"max": 0}}}
    case = budget.parse(tables).for_case("owner/name@main/cached/b1-p16-n8-f32", "cpu-x86_64-2c-0")
    assert case.limits["compiles_steady"].max == 0
    assert aot_budget.parse(tables, "x").budgets == ()
