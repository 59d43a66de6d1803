"""Faults planted in a decode step, each found in what the TPU's compiler made of it, with buffer, argument or line.

The step without a fault passes. Nothing is run, and no TPU is here.
"""

import importlib.util
from functools import cache
from pathlib import Path

import jax
import pytest

from qwenperf.aot.functions import compile_for
from qwenperf.aot.platforms import missing_compiler
from qwenperf.gate.aot import exit_code, judge, judge_case
from qwenperf.gate.aot_budget import ProgramBudget, ProgramBudgets, parse
from qwenperf.gate.aot_difference import compare_cases
from qwenperf.schema.analysis import AotRecord
from qwenperf.schema.records import Outcome

_SPEC = importlib.util.spec_from_file_location("aot_steps", Path(__file__).with_name("steps.py"))
steps = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(steps)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_compiler("tpu")), reason=missing_compiler("tpu") or "there is a compiler"),
]

ONE, FOUR = "v5e-1", "v5e-4"


def compiled(function, args, target=ONE, **more):
    """Return the record of a function compiled for a target."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        return compile_for(function, *args, targets=target, **more).cases[0]


def step(function=steps.step, target=ONE, names=steps.APART, positions=steps.POSITIONS):
    """Return the record of a decode step."""
    more = {"mesh": {"tensor": 4}, "specs": steps.divisions(names)} if target == FOUR else {}
    return compiled(function, steps.arguments(names, positions), target, name="decode_step", **more)


@cache
def good(target=ONE):
    """Return the step that nothing is wrong with."""
    return step(target=target)


def failures(base, head):
    """Return the summaries of the verdicts that fail, by gate."""
    return {one.gate: one.summary for one in compare_cases(base, head) if one.outcome is Outcome.FAIL}


@pytest.mark.parametrize("target", [ONE, FOUR])
def test_the_step_without_a_fault_passes(target):
    """Without a budget, under budgets of nothing to copy and nothing in vain, and compared with itself."""
    case = good(target)
    limits = {
        name: {"max": 0} for name in ("relayouts", "upcasts", "unaliased_donations", "trigonometric", "host_calls")
    }
    budgets = parse({"*@*": {**limits, "temp_bytes": {"max": 4_000_000}}}, "x")
    record = judge(AotRecord(id="r", created_at="now", environment={}, declared=(case.id,), cases=(case,)), budgets)
    assert [one.summary for one in record.cases[0].verdicts if one.outcome is not Outcome.PASS] == []
    assert exit_code(record) == 0
    assert [one.data for one in compare_cases(case, step(target=target))] == [{"same": True}]


def test_a_donation_that_is_dropped_is_found():
    """The cache is held twice, and named."""
    found = failures(good(), step(steps.not_donated))
    assert "`cache.k.0`" in found["alias_bytes"]
    assert "was donated in base and is not in head" in found["alias_bytes"]


def test_a_donation_in_vain_is_found():
    """A cache that comes back wider cannot be written over the one that was given; no base is needed for that."""
    case = step(steps.cache_in_another_dtype)
    told = {one.gate: one.summary for one in judge_case(case, ProgramBudget()) if one.outcome is Outcome.FAIL}
    assert "`cache.k.0` (bf16[8,2048,8,128])" in told["donation"]


def test_a_relayout_of_a_stack_of_layers_is_found():
    """The loop wants the weights the other way round: all of them are copied in each step."""
    base = compiled(steps.scanned, steps.stacked_arguments(), name="decode_step")
    head = compiled(steps.scanned_transposed, steps.stacked_arguments(turned=True), name="decode_step")
    found = failures(base, head)
    assert "copy of `params.layers.w_gate_up` (bf16[16,8192,1024]) to another layout" in found["temp_bytes"]
    assert "`params.layers.w_gate_up`" in found["relayout_bytes"]


def test_projections_that_are_fused_and_divided_exchange_their_parts():
    """The parts of a fused projection are not where the devices want them."""
    base = good(FOUR)
    assert {one.kind for one in base.program.collectives} == {"all-reduce"}
    found = failures(base, step(target=FOUR, names=steps.FUSED))
    assert "collective-permute of bf16[8," in found["collectives"]
    assert "steps.py:" in found["collectives"]


def test_attention_that_holds_all_scores_is_found():
    """Flash attention is gone, and what takes its memory is named with its line."""
    args = steps.attention_arguments()
    base, head = (compiled(one, args, name="prefill") for one in (steps.flash, steps.materialised))
    found = failures(base, head)
    assert "flash_attention" in found["kernels"]
    assert "8,8192,8192]" in found["temp_bytes"]
    assert "steps.py:" in found["temp_bytes"]


def test_weights_that_are_widened_are_found():
    """In the step, for nothing."""
    found = failures(good(), step(steps.weights_in_f32))
    assert "copy of `params.embedding` to f32[65536,1024], wider than bf16" in found["upcast_bytes"]
    assert "steps.py:" in found["upcast_bytes"]


def test_a_cache_that_grew_past_the_memory_is_found():
    """By its name and size, whether the compiler refuses the program or not."""
    head = step(positions=1 << 20)
    (told,) = [one.summary for one in judge_case(head, ProgramBudget()) if one.gate == "memory"]
    assert "does not fit" in told
    assert "`cache.k.0` (bf16[8,1048576,8,128]" in told
    assert exit_code(judge(AotRecord(id="r", created_at="", environment={}, cases=(head,)), ProgramBudgets())) == 1


def test_a_kernel_with_a_block_that_the_chip_rejects_is_found():
    """The kernel as it should be compiles; the block is named where it does not."""
    x = steps.shape(8192, 8192, dtype=jax.numpy.float32)
    base = compiled(steps.kernel, (x,), name="double")
    assert any(name.startswith("double") for name in base.program.kernels)
    head = compiled(steps.kernel_with_odd_block, (x,), name="double")
    found = failures(base, head)
    assert "compiled in base, and in head the compiler refuses it" in found["compiles"]
    assert "block" in found["compiles"]
    large = compiled(steps.kernel_with_large_block, (x,), name="double")
    assert "vmem" in failures(base, large)["compiles"]
