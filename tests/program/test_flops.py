"""Operations are counted by formula from shapes."""

import pytest

from qwenperf.program import flops, hlo
from qwenperf.program.attributes import Dimension

ADD = """\
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}"""


def total(texts, *lines, computations=()):
    module = texts.parsed(*lines, computations=(*computations, ADD))
    return flops.work(module)["main.1"]


def test_a_product_counts_two_for_each_pair_of_numbers(texts):
    lines = (
        "%a = f32[3,5]{1,0} parameter(0)",
        "%b = f32[7,5]{1,0} parameter(1)",
        "ROOT %d = f32[3,7]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    )
    assert total(texts, *lines) == flops.Work(flops=2 * 3 * 7 * 5, products=2 * 3 * 7 * 5)


@pytest.mark.parametrize(("left", "right", "int8"), [("s8", "s8", 210), ("u8", "s8", 210), ("bf16", "s8", 0)])
def test_a_product_of_whole_numbers_of_8_bits_is_told_apart(texts, left, right, int8):
    """Chips have a peak of their own for it; weights of int8 that are multiplied in bf16 have not."""
    lines = (
        f"%a = {left}[3,5]{{1,0}} parameter(0)",
        f"%b = {right}[7,5]{{1,0}} parameter(1)",
        "ROOT %d = s32[3,7]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    )
    assert total(texts, *lines) == flops.Work(flops=210, products=210, int8=int8)
    as_convolution = "ROOT %d = s32[3,7]{1,0} convolution(%a, %b), dim_labels=bf_oi->bf"
    assert total(texts, *lines[:2], as_convolution).int8 == int8


def test_a_batched_product_counts_each_batch(texts):
    lines = (
        "%a = f32[2,3,5]{2,1,0} parameter(0)",
        "%b = f32[2,5,7]{2,1,0} parameter(1)",
        "ROOT %d = f32[2,3,7]{2,1,0} dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}",
    )
    assert total(texts, *lines).flops == 2 * 2 * 3 * 7 * 5


def test_a_batched_product_that_is_written_as_a_convolution_with_holes_counts_the_same(texts):
    """A TPU's compiler makes the batch an axis of a window that is dilated by its own size."""
    lines = (
        "%a = bf16[2,3,5]{2,1,0} parameter(0)",
        "%b = bf16[2,5,7]{2,1,0} parameter(1)",
        "ROOT %d = f32[2,3,7]{2,1,0} convolution(%a, %b), window={size=2 lhs_dilate=2}, dim_labels=0bf_0io->0bf",
    )
    assert total(texts, *lines).flops == 2 * 2 * 3 * 7 * 5


def test_a_product_as_a_convolution_without_a_window(texts):
    lines = (
        "%a = bf16[3,5]{1,0} parameter(0)",
        "%b = bf16[7,5]{1,0} parameter(1)",
        "ROOT %d = bf16[3,7]{1,0} convolution(%a, %b), dim_labels=bf_oi->bf",
    )
    assert total(texts, *lines).flops == 2 * 3 * 7 * 5


@pytest.mark.parametrize(
    ("a", "b", "made", "groups", "work"),
    [
        # Each of 6 features of the output is of the 2 rows of its group, whose 5 features it multiplies.
        ("6,5", "5,6", "2,6", "batch_group_count=3", 2 * 2 * 6 * 5),
        # Each of 6 features of the output is of 5 of the 15 features.
        ("2,15", "5,6", "2,6", "feature_group_count=3", 2 * 2 * 6 * 5),
    ],
)
def test_a_convolution_in_groups_counts_each_group_once(texts, a, b, made, groups, work):
    lines = (
        f"%a = f32[{a}]{{1,0}} parameter(0)",
        f"%b = f32[{b}]{{1,0}} parameter(1)",
        f"ROOT %d = f32[{made}]{{1,0}} convolution(%a, %b), dim_labels=bf_io->bf, {groups}",
    )
    assert total(texts, *lines).flops == work


def brute(size, outputs, axis):
    dilated = (size - 1) * axis.base_dilation + 1
    places = (
        output * axis.stride + place * axis.window_dilation - axis.low
        for output in range(outputs)
        for place in range(axis.size)
    )
    return sum(0 <= place < dilated and place % axis.base_dilation == 0 for place in places)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("base", [1, 2, 4])
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize(("low", "size"), [(0, 1), (1, 3), (2, 4), (-1, 2), (6, 7)])
def test_only_what_falls_on_numbers_counts(stride, base, window, low, size):
    axis = Dimension(size=size, stride=stride, low=low, base_dilation=base, window_dilation=window)
    for outputs in (1, 2, 5, 9):
        assert flops.valid_pairs(6, outputs, axis) == brute(6, outputs, axis)


def test_a_product_written_as_a_multiplication_and_a_sum_counts_the_same_as_the_product(texts):
    fused = texts.computation(
        "fused",
        "%x = f32[64,128]{1,0} parameter(0)",
        "%y = f32[64,128]{1,0} parameter(1)",
        "%m = f32[64,128]{1,0} multiply(%x, %y)",
        "%z = f32[] constant(0)",
        "ROOT %r = f32[64]{0} reduce(%m, %z), dimensions={1}, to_apply=%add",
    )
    lines = (
        "%a = f32[64,128]{1,0} parameter(0)",
        "ROOT %f = f32[64]{0} fusion(%a, %a), kind=kLoop, calls=%fused",
    )
    assert total(texts, *lines, computations=(fused,)).flops == 2 * 64 * 128


def test_conversions_comparisons_functions_and_integers_are_no_arithmetic_of_a_chips_peak(texts):
    lines = (
        "%a = f32[8]{0} parameter(0)",
        "%i = s32[8]{0} parameter(1)",
        "%1 = bf16[8]{0} convert(%a)",
        "%2 = f32[8]{0} exponential(%a)",
        "%3 = s32[8]{0} add(%i, %i)",
        "%4 = pred[8]{0} compare(%a, %a), direction=LT",
        "%5 = f32[8]{0} multiply(%a, %2)",
        "ROOT %6 = f32[8]{0} copy(%5)",
    )
    assert total(texts, *lines) == flops.Work(flops=8, other=32)


def test_the_sum_of_a_whole_axis_is_counted_once_however_often_a_window_repeats_it(texts):
    lines = (
        "%a = f32[2,128]{1,0} parameter(0)",
        "%z = f32[] constant(0)",
        "ROOT %r = f32[2,128]{1,0} reduce-window(%a, %z), window={size=1x255 pad=0_0x127_127}, to_apply=%add",
    )
    assert total(texts, *lines).flops == 2 * 128
    pooled = lines[-1].replace("1x255 pad=0_0x127_127", "1x3 pad=0_0x1_1")
    assert total(texts, *lines[:-1], pooled).flops == 2 * 128 * 3


def test_library_products_and_kernels_that_tell_their_cost_are_counted(texts):
    lines = (
        "%a = f32[6,10]{1,0} parameter(0)",
        "%b = f32[10,14]{1,0} parameter(1)",
        'ROOT %d = (f32[6,14]{1,0}, s8[64]{0}) custom-call(%a, %b), custom_call_target="__onednn$matmul"',
    )
    assert total(texts, *lines).flops == pytest.approx(2 * 6 * 10 * 14)
    kernel = (
        'ROOT %k = f32[4]{0} custom-call(%a), custom_call_target="tpu_custom_call", '
        'backend_config={"custom_call_config":{"cost_estimate":{"flops":"77","bytes_accessed":"9"}}}'
    )
    assert total(texts, kernel).flops == 77
    assert total(texts, 'ROOT %k = f32[4]{0} custom-call(%a), custom_call_target="mine"') == flops.NOTHING


def test_fusions_that_contain_each_other_end():
    text = "HloModule m\n\n" + "".join(
        f"%f{one} (p: f32[4]) -> f32[4] {{\n  ROOT %r = f32[4]{{0}} fusion(%p), kind=kLoop, calls=%f{1 - one}\n}}\n"
        for one in (0, 1)
    )
    assert flops.work(hlo.parse(text)) == {"f0": flops.NOTHING, "f1": flops.NOTHING}
