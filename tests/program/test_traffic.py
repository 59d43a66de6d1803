"""Bytes of main memory are counted as they are moved: slices in part, updates in place, prefetches once."""

import pytest

from qwenperf.program import traffic

A = "%a = f32[64,128]{1,0} parameter(0)"
NUMBER = "%i = s32[] parameter(1)"
WHOLE = 64 * 128 * 4
ROW = 128 * 4
INDEX = 4


def moved(texts, *lines, name="r", computations=()):
    module = texts.parsed(*lines, computations=computations)
    found = traffic.of(module, texts.named(module, name))
    return sum(read.stored for read in found.reads), found.written


def fusion(texts, *body):
    return texts.computation("fused", "%p.0 = f32[64,128]{1,0} parameter(0)", "%p.1 = s32[] parameter(1)", *body)


def test_arithmetic_reads_its_operands_once_and_writes_its_result(texts):
    assert moved(texts, A, "ROOT %r = f32[64,128]{1,0} multiply(%a, %a)") == (WHOLE, WHOLE)


@pytest.mark.parametrize("opcode", ["dynamic-slice(%a, %i, %i)", "slice(%a)", "gather(%a, %i)"])
def test_a_slice_reads_only_what_it_takes(texts, opcode):
    read, written = moved(texts, A, NUMBER, f"ROOT %r = f32[1,128]{{1,0}} {opcode}")
    assert (read - INDEX * ("%i" in opcode), written) == (ROW, ROW)


def test_an_update_in_place_moves_only_the_part(texts):
    lines = (A, NUMBER, "%u = f32[1,128]{1,0} parameter(2)")
    read, written = moved(texts, *lines, "ROOT %r = f32[64,128]{1,0} dynamic-update-slice(%a, %u, %i, %i)")
    assert (read, written) == (ROW + INDEX, ROW)


def test_a_fusion_that_slices_reads_only_what_it_takes(texts):
    body = fusion(
        texts,
        "%s = f32[1,128]{1,0} dynamic-slice(%p.0, %p.1, %p.1), dynamic_slice_sizes={1,128}",
        "ROOT %n = f32[1,128]{1,0} negate(%s)",
    )
    read, written = moved(
        texts, A, NUMBER, "ROOT %r = f32[1,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused", computations=(body,)
    )
    assert (read, written) == (ROW + INDEX, ROW)


def test_a_fusion_that_also_needs_the_whole_reads_the_whole(texts):
    body = fusion(
        texts,
        "%s = f32[1,128]{1,0} dynamic-slice(%p.0, %p.1, %p.1), dynamic_slice_sizes={1,128}",
        "%b = f32[64,128]{1,0} broadcast(%s), dimensions={0,1}",
        "ROOT %n = f32[64,128]{1,0} add(%b, %p.0)",
    )
    lines = (A, NUMBER, "ROOT %r = f32[64,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused")
    assert moved(texts, *lines, computations=(body,)) == (WHOLE + INDEX, WHOLE)


UPDATE = "%d = f32[64,128]{1,0} dynamic-update-slice(%p.0, %z, %p.1, %p.1)"
ZERO = "%z = f32[1,128]{1,0} constant({...})"


def test_a_fusion_that_updates_what_it_was_given_moves_only_the_part(texts):
    body = fusion(texts, ZERO, UPDATE, "ROOT %b = f32[64,128]{1,0} bitcast(%d)")
    lines = (A, NUMBER, "ROOT %r = f32[64,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused")
    assert moved(texts, *lines, computations=(body,)) == (INDEX, ROW)


def test_a_fusion_that_converts_before_and_after_its_update_moves_the_whole(texts):
    """What XLA makes of a bf16 cache on a CPU."""
    up = "%up = f32[64,128]{1,0} convert(%p.0)"
    down = "ROOT %down = f32[64,128]{1,0} convert(%d)"
    body = fusion(texts, ZERO, up, UPDATE.replace("%p.0", "%up"), down)
    lines = (A, NUMBER, "ROOT %r = f32[64,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused")
    assert moved(texts, *lines, computations=(body,)) == (WHOLE + INDEX, WHOLE)


def test_an_update_of_a_converted_copy_writes_the_whole(texts):
    up = "%up = f32[64,128]{1,0} convert(%p.0)"
    body = fusion(texts, ZERO, up, UPDATE.replace("%p.0", "%up").replace("%d =", "ROOT %d ="))
    lines = (A, NUMBER, "ROOT %r = f32[64,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused")
    assert moved(texts, *lines, computations=(body,)) == (WHOLE + INDEX, WHOLE)


def test_slices_are_seen_through_fusions_in_fusions(texts):
    inner = texts.computation(
        "inner", "%q = f32[64,128]{1,0} parameter(0)", "%j = s32[] parameter(1)",
        "ROOT %s = f32[1,128]{1,0} dynamic-slice(%q, %j, %j), dynamic_slice_sizes={1,128}",
    )  # fmt: skip
    outer = fusion(texts, "ROOT %n = f32[1,128]{1,0} fusion(%p.0, %p.1), kind=kLoop, calls=%inner")
    lines = (A, NUMBER, "ROOT %r = f32[1,128]{1,0} fusion(%a, %i), kind=kOutput, calls=%fused")
    assert moved(texts, *lines, computations=(inner, outer)) == (ROW + INDEX, ROW)


def test_a_slice_of_a_conversion_reads_only_its_part(texts):
    """A fusion computes what its result needs: converting the rest would be for nobody."""
    body = fusion(
        texts,
        "%c = bf16[64,128]{1,0} convert(%p.0)",
        "ROOT %s = bf16[1,128]{1,0} dynamic-slice(%c, %p.1, %p.1), dynamic_slice_sizes={1,128}",
    )
    lines = (A, NUMBER, "ROOT %r = bf16[1,128]{1,0} fusion(%a, %i), kind=kLoop, calls=%fused")
    assert moved(texts, *lines, computations=(body,)) == (ROW + INDEX, ROW / 2)


def test_what_fusions_inside_only_hand_on_is_read_by_what_uses_it(texts):
    """A TPU's compiler wraps a bitcast in a fusion of its own before a product."""
    inner = texts.computation("inner", "%q = f32[64,128]{1,0} parameter(0)", "ROOT %b = f32[64,128]{1,0} bitcast(%q)")
    handed = "%h = f32[64,128]{1,0} fusion(%p.0), kind=kLoop, calls=%inner"
    outer = fusion(texts, handed, "ROOT %n = f32[64,128]{1,0} negate(%h)")
    lines = (A, NUMBER, "ROOT %r = f32[64,128]{1,0} fusion(%a, %i), kind=kOutput, calls=%fused")
    assert moved(texts, *lines, computations=(inner, outer)) == (WHOLE, WHOLE)


def test_what_is_on_the_chip_moves_nothing_and_a_prefetch_reads_once(texts):
    lines = (
        A,
        "%s = (f32[64,128]{1,0:S(1)}, f32[64,128]{1,0}, u32[]{:S(2)}) copy-start(%a)",
        "%d = f32[64,128]{1,0:S(1)} copy-done(%s)",
        "ROOT %r = f32[64,128]{1,0:S(1)} negate(%d)",
    )
    assert [moved(texts, *lines, name=name) for name in ("s", "d", "r")] == [(WHOLE, 0), (0, 0), (0, 0)]


def test_padding_of_tiles_is_moved_too(texts):
    a = "%a = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(0)"
    lines = (a, "ROOT %r = bf16[8,32]{1,0:T(8,128)(2,1)} slice(%a), slice={[0:8], [0:32]}")
    # Read: the slice's 256 elements with the padding of the array; written: 8 x 128.
    assert moved(texts, *lines) == (8 * 32 * 2 * 2, 8 * 128 * 2)


def test_loops_tuples_and_marks_move_nothing_themselves(texts):
    for line in (
        "ROOT %r = (f32[64,128]{1,0}) tuple(%a)",
        "ROOT %r = (f32[64,128]{1,0}) while(%a), condition=%c, body=%b",
        "ROOT %r = f32[64,128]{1,0} bitcast(%a)",
        'ROOT %r = f32[64,128]{1,0} custom-call(%a), custom_call_target="Sharding"',
    ):
        assert moved(texts, A, line) == (0, 0)


def test_a_kernel_moves_what_its_author_says(texts):
    line = 'ROOT %r = f32[4]{0} custom-call(%a), custom_call_target="tpu_custom_call"'
    assert moved(texts, A, line) == (WHOLE, 16)
    told = ', backend_config={"custom_call_config":{"cost_estimate":{"flops":"7","bytes_accessed":"100"}}}'
    assert moved(texts, A, line + told) == (0, 100)


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul", "__onednn$matmul"])
def test_the_room_that_a_library_works_in_is_not_moved(texts, target):
    """XLA for GPU gives each product 32 MB of it; another result of bytes is one."""
    kinds = "(f32[64,64]{1,0}, s8[33554432]{0})"
    line = f'ROOT %r = {kinds} custom-call(%a, %a), custom_call_target="{target}"'
    assert moved(texts, A, line) == (WHOLE, 64 * 64 * 4)
    assert moved(texts, A, line.replace("[33554432]{0}", "[64,8]{1,0}")) == (WHOLE, 64 * 64 * 4 + 64 * 8)
    assert moved(texts, A, line.replace(target, "my_kernel")) == (WHOLE, 64 * 64 * 4 + 33554432)


def test_a_result_of_several_arrays_is_written_part_by_part(texts):
    body = fusion(
        texts,
        ZERO,
        UPDATE,
        "%n = f32[64,128]{1,0} negate(%p.0)",
        "ROOT %t = (f32[64,128]{1,0}, f32[64,128]{1,0}) tuple(%d, %n)",
    )
    line = "ROOT %r = (f32[64,128]{1,0}, f32[64,128]{1,0}) fusion(%a, %i), kind=kLoop, calls=%fused"
    assert moved(texts, A, NUMBER, line, computations=(body,)) == (WHOLE + INDEX, ROW + WHOLE)
