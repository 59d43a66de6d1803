"""An instruction's category follows from what it contains."""

import pytest

from qwenperf.program.categories import CATEGORIES, category
from qwenperf.traces.categories import _BY_NAME

WEIGHT = "%w = bf16[64,32]{1,0} parameter(1), metadata={op_name=\"params['up']\"}"
X = '%x = bf16[1,64]{1,0} parameter(0), metadata={op_name="x"}'
SOFTMAX = 'metadata={op_name="jit(step)/exp" source_file="/src/softmax.py" source_line=4}'
NORM = 'metadata={op_name="jit(step)/rms_norm/reduce_sum" source_file="/src/layers.py" source_line=4}'


def told(texts, *lines, name="r", computations=()):
    module = texts.parsed(X, WEIGHT, *lines, computations=computations)
    return category(module, texts.named(module, name), {1})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bf16[1,32]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "matmul"),
        ("bf16[1,64]{1,0} add(%x, %x)", "elementwise"),
        ("bf16[64,1]{1,0} transpose(%x), dimensions={1,0}", "copy"),
        ("bf16[1,64]{0,1} copy(%x)", "copy"),
        ("(bf16[64,32]{1,0:S(1)}, bf16[64,32]{1,0}, u32[]) copy-start(%w)", "prefetch"),
        ("(bf16[64,32]{0,1}, bf16[64,32]{1,0}, u32[]) copy-start(%w)", "copy"),
        ("bf16[1,32]{1,0} dynamic-slice(%w, %i, %i)", "gather"),
        ("bf16[64,32]{1,0} dynamic-update-slice(%w, %n, %i, %i)", "cache update"),
        ("f32[64,32]{1,0} convert(%w)", "convert"),
        (f"f32[] reduce(%x, %z), dimensions={{0,1}}, to_apply=%add, {NORM}", "norm"),
        ("f32[] reduce(%x, %z), dimensions={0,1}, to_apply=%add", "reduction"),
        ("bf16[1,64]{1,0} all-reduce(%x), to_apply=%add", "collective"),
        ('bf16[1,64]{1,0} custom-call(%x), custom_call_target="tpu_custom_call"', "kernel"),
        ('bf16[1,64]{1,0} custom-call(%x), custom_call_target="xla_ffi_python_cpu_callback"', "host"),
        ("(bf16[1,64]{1,0}) tuple(%x)", "control"),
        (
            "bf16[2,1,8]{2,1,0} dot(%x, %x), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}",
            "attention",
        ),
        (f"bf16[1,64]{{1,0}} exponential(%x), {SOFTMAX}", "attention"),
        (f"bf16[1,32]{{1,0}} dot(%x, %w), lhs_contracting_dims={{1}}, {SOFTMAX}", "matmul"),
    ],
)
def test_instructions_alone(texts, line, expected):
    assert told(texts, f"ROOT %r = {line}") == expected
    assert expected in CATEGORIES


def test_the_words_are_those_of_traces():
    """One noun for one thing: what a trace calls an operation, a program calls it too; "other" is what says nothing."""
    assert {kind for kind, _ in _BY_NAME} - {"other"} | {"norm", "elementwise"} == CATEGORIES - {"prefetch", "kernel"}


def test_a_product_that_became_a_multiplication_and_a_sum_is_still_a_product(texts):
    fused = texts.computation(
        "fused",
        "%p = bf16[64,32]{1,0} parameter(0)",
        "%m = bf16[64,32]{1,0} multiply(%p, %p)",
        'ROOT %s = bf16[32]{0} reduce(%m, %z), dimensions={0}, to_apply=%add, metadata={op_name="jit(f)/dot_general"}',
    )
    line = "ROOT %r = bf16[32]{0} fusion(%w), kind=kLoop, calls=%fused"
    assert told(texts, line, computations=(fused,)) == "matmul"
    summed = fused.replace("dot_general", "reduce_sum")
    assert told(texts, line, computations=(summed,)) == "reduction"


def test_a_fusion_of_moves_alone_is_a_copy(texts):
    fused = texts.computation(
        "fused",
        "%p = bf16[64,32]{1,0} parameter(0)",
        "%t = bf16[32,64]{1,0} transpose(%p)",
        "ROOT %c = bf16[32,64]{0,1} copy(%t)",
    )
    assert (
        told(texts, "ROOT %r = bf16[32,64]{0,1} fusion(%w), kind=kLoop, calls=%fused", computations=(fused,)) == "copy"
    )
