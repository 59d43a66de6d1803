"""What XLA does to a decode step on a CPU is told with the weight and its line, and what to do instead."""

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import qwenperf
from qwenperf.gate.aot import exit_code, judge
from qwenperf.gate.aot_budget import ProgramBudgets, parse
from qwenperf.gate.aot_pitfalls import pitfalls
from qwenperf.schema.analysis import TargetRecord

_SPEC = importlib.util.spec_from_file_location("aot_records", Path(__file__).with_name("aot_records.py"))
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)

CPU = TargetRecord(name="cpu", platform="cpu")
LAYERS, WIDTH, WIDE = 4, 256, 1024


def on_cpu(*copies, target=CPU, **extra):
    """Return a step for a CPU that makes these copies."""
    program = made.good_program(copies=copies, extra={"weight_bytes": 1e9, **extra})
    return replace(made.good_case(program), target=target, fit=None)


def test_weights_that_are_widened_are_told_with_their_name_and_line():
    """A warning, and no failure without a budget; judged twice it is told once."""
    case = on_cpu(made.UPCAST, upcast_weight_bytes=2e9)
    record = judge(judge(made.record(case), ProgramBudgets()), ProgramBudgets())
    (finding,) = record.cases[0].findings
    assert (finding.code, finding.severity.value) == ("weights-widened", "warning")
    assert finding.message == (
        "decode_step on cpu: 2.00 GB of weights are copied to a wider type in each call: copy of "
        "`params.layers.w_gate_up` to f32[24,896,9728], wider than bf16[24,896,9728], from qwen2.py:88."
    )
    assert "+rows=2" in finding.advice
    assert exit_code(record) == 0
    limited = judge(record, parse({"*@*": {"upcast_bytes": {"max": 0}}}, "x"))
    assert exit_code(limited) == 1


def test_weights_that_are_sliced_out_of_their_stacks_are_told():
    """The other one, by its own name."""
    slices = replace(made.RELAYOUT, kind="slice", runs=24)
    (finding,) = pitfalls(on_cpu(slices, sliced_weight_bytes=9e8))
    assert finding.code == "weights-sliced"
    assert "slice of `params.layers.w_gate_up` copied out" in finding.message
    assert "+layers=unrolled" in finding.advice


@pytest.mark.parametrize(
    ("case"),
    [
        on_cpu(made.UPCAST, upcast_weight_bytes=1e6),
        on_cpu(made.UPCAST),
        on_cpu(made.UPCAST, upcast_weight_bytes=2e9, target=made.good_case().target),
        replace(on_cpu(), program=None),
    ],
    ids=["small", "unknown", "another chip", "no program"],
)
def test_what_is_small_unknown_or_of_another_chip_is_no_pitfall(case):
    """Copies of a row, a record of an older version, a TPU."""
    assert pitfalls(case) == ()


def layer(x, of_layer):
    return x + jax.nn.silu(x @ of_layer["up"]) @ of_layer["down"]


def scanned(params, x):
    """Run a loop over stacked layers."""
    return jax.lax.scan(lambda x, of_layer: (layer(x, of_layer), None), x, params)[0]


def unrolled(params, x):
    """Run layers that are written out."""
    for of_layer in params:
        x = layer(x, of_layer)
    return x


def told_of(step, rows, dtype):
    """Return the codes of what the compiler of this machine does to a step."""
    shape = partial(jax.ShapeDtypeStruct, dtype=dtype)
    sizes = {"up": (WIDTH, WIDE), "down": (WIDE, WIDTH)}
    stacked = {name: shape((LAYERS, *size)) for name, size in sizes.items()}
    apart = [{name: shape(size) for name, size in sizes.items()} for _ in range(LAYERS)]
    params = stacked if step is scanned else apart
    record = qwenperf.compile_for(step, params, shape((rows, WIDTH)), targets="cpu")
    return {finding.code for finding in judge(record, ProgramBudgets()).cases[0].findings}


def test_the_compiler_of_this_machine_falls_into_both():
    """One row in bf16 widens weights and a scan slices them; written out in f32 neither is there."""
    assert told_of(unrolled, 1, jnp.bfloat16) == {"weights-widened"}
    assert told_of(scanned, 1, jnp.float32) == {"weights-sliced"}
    assert told_of(unrolled, 1, jnp.float32) == set()
