"""A copy of a whole array is named with the argument whose bytes it copies, its size and the line that made it."""

import pytest

from qwenperf.program import buffers, copies, loops

WEIGHT = "%w = bf16[24,896,128]{2,1,0:T(8,128)(2,1)} parameter(0), metadata={op_name=\"params['layers']['w_up']\"}"
LINE = ', metadata={op_name="jit(step)/dot_general" source_file="/src/models/qwen2.py" source_line=88}'
SIZE = 24 * 896 * 128 * 2


def found(texts, *lines, **parts):
    module = texts.parsed(*lines, **parts)
    return copies.copies(module, loops.schedule(module))


def one(texts, *lines, **parts):
    (copy,) = found(texts, *lines, **parts)
    return copy


def test_a_relayout_of_weights_is_told_in_a_sentence(texts):
    copy = one(texts, WEIGHT, f"ROOT %r = bf16[24,896,128]{{1,2,0:T(8,128)(2,1)}} copy(%w){LINE}")
    assert (copy.kind, copy.bytes, copy.buffer, copy.source) == ("relayout", SIZE, "params.layers.w_up", "qwen2.py:88")
    assert (copy.before, copy.after) == ("bf16[24,896,128]{2,1,0:T(8,128)}", "bf16[24,896,128]{1,2,0:T(8,128)}")
    assert copies.describe(copy) == (
        "copy of `params.layers.w_up` (bf16[24,896,128]) to another layout, from qwen2.py:88"
    )


def test_another_tile_is_another_layout(texts):
    assert one(texts, WEIGHT, "ROOT %r = bf16[24,896,128]{2,1,0:T(16,128)(2,1)} copy(%w)").kind == "relayout"


def test_a_relayout_that_another_part_of_the_chip_makes_is_one_too(texts):
    """A v7x has its SparseCores copy weights that a scan wants in other tiles: a call within a call."""
    kind = "bf16[24,896,128]{2,1,0:T(16,128)(2,1)}"
    inner = texts.computation("inner", WEIGHT.replace("%w", "%p"), f"ROOT %c = {kind} copy(%p)")
    outer = texts.computation(
        "outer",
        WEIGHT.replace("%w", "%q"),
        f"%s.1 = ((bf16[24,896,128]{{2,1,0:T(8,128)(2,1)}}), {kind}, u32[]{{:S(8)}}) call-start(%q), to_apply=%inner",
        f"ROOT %d.1 = {kind} call-done(%s.1)",
    )
    entry = (
        f"%s = ((bf16[24,896,128]{{2,1,0:T(8,128)(2,1)}}, token[]), {kind}) call-start(%w, %t), to_apply=%outer",
        f"%d = {kind} call-done(%s)",
        f"ROOT %n = {kind} negate(%d){LINE}",
    )
    copy = one(texts, WEIGHT, *entry, computations=(inner, outer))
    assert (copy.kind, copy.buffer, copy.bytes, copy.source) == ("relayout", "params.layers.w_up", SIZE, "qwen2.py:88")
    module = texts.parsed(WEIGHT, *entry, computations=(inner, outer))
    assert buffers.argument(module, texts.named(module, "d"), moved=True).number == 0
    assert buffers.argument(module, texts.named(module, "d")) is None


def test_a_copy_that_moves_nothing_about_is_a_plain_copy(texts):
    copy = one(texts, WEIGHT, "ROOT %r = bf16[24,896,128]{2,1,0:T(8,128)(2,1)} copy(%w)")
    assert (copy.kind, copies.describe(copy)) == ("copy", "copy of `params.layers.w_up` (bf16[24,896,128])")


def test_an_asynchronous_relayout_is_one_too(texts):
    kind = "bf16[24,896,128]{1,2,0:T(8,128)(2,1)}"
    start = f"%s = ({kind}, bf16[24,896,128]{{2,1,0:T(8,128)(2,1)}}, u32[]{{:S(2)}}) copy-start(%w)"
    assert one(texts, WEIGHT, start, f"ROOT %r = {kind} copy-done(%s)").kind == "relayout"


def test_a_prefetch_onto_the_chip_is_no_copy_and_what_comes_back_as_it_was_is_none(texts):
    lines = (
        "%s = (bf16[24,896,128]{2,1,0:T(8,128)(2,1)S(1)}, bf16[24,896,128]{2,1,0:T(8,128)(2,1)}, u32[]) copy-start(%w)",
        "%d = bf16[24,896,128]{2,1,0:T(8,128)(2,1)S(1)} copy-done(%s)",
        "ROOT %r = bf16[24,896,128]{2,1,0:T(8,128)(2,1)} copy(%d)",
    )
    assert found(texts, WEIGHT, *lines) == ()


@pytest.mark.parametrize("fused", [True, False])
def test_an_upcast_of_weights_is_named_in_a_fusion_and_alone(texts, fused):
    line = f"%r = f32[24,896,128]{{2,1,0:T(8,128)}} convert(%w){LINE}"
    parts = {}
    if fused:
        body = texts.computation("fused", WEIGHT.replace("%w", "%p"), f"ROOT {line.replace('(%w)', '(%p)')}")
        line, parts = (
            "%r = f32[24,896,128]{2,1,0:T(8,128)} fusion(%w), kind=kLoop, calls=%fused",
            {"computations": (body,)},
        )
    copy = one(texts, WEIGHT, f"ROOT {line}", **parts)
    assert (copy.kind, copy.bytes, copy.buffer, copy.source) == (
        "upcast",
        2 * SIZE,
        "params.layers.w_up",
        "qwen2.py:88",
    )
    assert "copy of `params.layers.w_up` to f32[24,896,128], wider than bf16" in copies.describe(copy)


def test_a_conversion_that_is_part_of_arithmetic_writes_no_copy(texts):
    body = texts.computation(
        "fused",
        WEIGHT.replace("%w", "%p"),
        "%u = f32[24,896,128]{2,1,0} convert(%p)",
        "ROOT %n = f32[24,896,128]{2,1,0} multiply(%u, %u)",
    )
    line = "ROOT %r = f32[24,896,128]{2,1,0} fusion(%w), kind=kLoop, calls=%fused"
    assert found(texts, WEIGHT, line, computations=(body,)) == ()


def sliced(texts, space=""):
    """Make a scan over layers, in which a layer's weights are sliced out."""
    kind = f"bf16[896,128]{{1,0:T(8,128)(2,1){space}}}"
    state = "(s32[], bf16[24,896,128]{2,1,0:T(8,128)(2,1)})"
    fused = texts.computation(
        "fused",
        "%p.0 = bf16[24,896,128]{2,1,0:T(8,128)(2,1)} parameter(0)",
        "%p.1 = s32[] parameter(1)",
        "%s = bf16[1,896,128]{2,1,0:T(8,128)(2,1)} dynamic-slice(%p.0, %p.1, %p.1, %p.1)",
        f"ROOT %b = {kind} bitcast(%s)",
    )
    body = texts.computation(
        "body",
        f"%p = {state} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%w.1 = bf16[24,896,128]{2,1,0:T(8,128)(2,1)} get-tuple-element(%p), index=1",
        f"%layer = {kind} fusion(%w.1, %i), kind=kLoop, calls=%fused",
        f"ROOT %t = {state} tuple(%i, %w.1)",
    )
    lines = ("%z = s32[] constant(0)", f"%state = {state} tuple(%z, %w)", texts.loop(24, "body", state=state))
    return found(texts, WEIGHT, *lines, computations=(fused, body))


def test_weights_that_a_scan_slices_into_a_buffer_are_named_with_the_number_of_rounds(texts):
    (copy,) = sliced(texts)
    assert (copy.kind, copy.bytes, copy.runs, copy.buffer) == ("slice", SIZE // 24, 24, "params.layers.w_up")
    assert copies.describe(copy) == "slice of `params.layers.w_up` copied out (bf16[896,128]), 24 times"


def test_a_slice_onto_the_chip_is_no_copy(texts):
    assert sliced(texts, space="S(1)") == ()


CACHE = '%c = bf16[2,20,16]{2,1,0} parameter(0), metadata={op_name="state.keys"}'
NEW = "%n = f32[2,1,16]{2,1,0} constant({...})"


def rewritten(texts, *body):
    fused = texts.computation("fused", "%p = bf16[2,20,16]{2,1,0} parameter(0)", NEW, *body)
    kind = body[-1].removeprefix("ROOT ").split(" = ")[1].split(" ")[0]
    return found(texts, CACHE, f"ROOT %r = {kind} fusion(%c), kind=kLoop, calls=%fused", computations=(fused,))


UP = "%up = f32[2,20,16]{2,1,0} convert(%p)"
UPDATE = "%d = f32[2,20,16]{2,1,0} dynamic-update-slice(%up, %n, %z, %z, %z)"


def test_a_cache_that_is_converted_around_its_update_is_a_copy_of_the_whole(texts):
    (copy,) = rewritten(texts, UP, UPDATE, "ROOT %down = bf16[2,20,16]{2,1,0} convert(%d)")
    assert (copy.kind, copy.bytes, copy.buffer) == ("copy", 2 * 20 * 16 * 2, "state.keys")
    (copy,) = rewritten(texts, UP, f"ROOT {UPDATE}")
    assert (copy.kind, copy.bytes, copy.buffer) == ("upcast", 2 * 20 * 16 * 4, "state.keys")


def test_an_update_in_place_is_no_copy(texts):
    update = UPDATE.replace("%up", "%p").replace("f32[2,20,16]", "bf16[2,20,16]")
    assert rewritten(texts, f"ROOT {update}") == ()


def test_heads_that_are_repeated_in_memory_are_named(texts):
    line = "ROOT %r = bf16[2,7,20,16]{3,2,1,0} broadcast(%c), dimensions={0,2,3}"
    copy = one(texts, CACHE, line)
    assert (copy.kind, copy.bytes, copy.buffer) == ("broadcast", 7 * 2 * 20 * 16 * 2, "state.keys")


def test_a_buffer_that_is_filled_with_a_constant_is_no_copy(texts):
    lines = ("%z = f32[] constant(0)", "ROOT %r = f32[2,20]{1,0} broadcast(%z), dimensions={}")
    assert [copy.buffer for copy in found(texts, *lines)] == []


def test_a_slice_of_an_intermediate_value_is_none_worth_telling(texts):
    lines = ("%n = bf16[24,896,128]{2,1,0} negate(%w)", "ROOT %s = bf16[1,896,128]{2,1,0} slice(%n), slice={[0:1]}")
    assert found(texts, WEIGHT, *lines) == ()


def test_weights_that_are_narrowed_at_each_call_are_named(texts):
    line = "ROOT %r = f8e4m3fn[24,896,128]{2,1,0} convert(%w)"
    assert one(texts, WEIGHT, line).kind == "downcast"


def test_the_largest_copy_comes_first(texts):
    lines = ("%s = bf16[24,896,128]{1,2,0} copy(%w)", CACHE.replace("parameter(0)", "parameter(1)"))
    kinds = found(texts, WEIGHT, *lines, "ROOT %r = bf16[2,20,16]{1,2,0} copy(%c)")
    assert [copy.buffer for copy in kinds] == ["params.layers.w_up", "state.keys"]


def test_operations_in_a_circle_end(texts):
    assert found(texts, "%x = f32[4]{0} copy(%y)", "ROOT %y = f32[4]{0} copy(%x)") is not None
