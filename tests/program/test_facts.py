"""Facts that gates judge, from program text without JAX."""

import re
from pathlib import Path

import pytest

from qwenperf.program import facts, hlo, stablehlo
from qwenperf.program.rewrites import converted, rewrites

SNIPPETS = Path(__file__).parent / "snippets"


@pytest.fixture(params=["0.10", "0.12"])
def version(request):
    return request.param


def module(name):
    return hlo.parse((SNIPPETS / f"{name}.hlo").read_text())


def entry(*lines):
    """Make a module of one entry computation."""
    return hlo.parse("HloModule m\n\nENTRY %main.1 (a: f32[4]) -> f32[4] {\n  " + "\n  ".join(lines) + "\n}\n")


def test_opcodes_are_counted_over_all_computations(version):
    counts = facts.opcodes(module(f"jax-{version}-donated"))
    assert (counts["sine"], counts["cosine"], counts["dynamic-update-slice"], counts["fusion"]) == (1, 1, 1, 3)
    assert "copy" not in counts


def test_sines_and_cosines_are_named_with_their_line(version):
    found = facts.trigonometric(module(f"jax-{version}-donated"))
    assert found == ("cosine from qwen2.py:6", "sine from qwen2.py:6")


def test_a_cosine_that_the_compiler_expanded_into_arithmetic_is_still_one():
    assert facts.trigonometric(module("tpu-older")) == ("cosine from rotary.py:31", "sine from rotary.py:32")


def test_a_cosine_folded_into_a_constant_is_no_work():
    folded = entry('%c.1 = f32[4]{0} constant({1, 1, 1, 1}), metadata={op_name="jit(step)/cos" stack_frame_id=3}')
    assert facts.trigonometric(folded) == ()


def test_a_cosine_without_a_source_line_is_named_by_its_operation():
    bare = entry('%c.1 = f32[4]{0} cosine(%a), metadata={op_name="jit(step)/rope/cos"}', "%d.1 = f32[4]{0} sine(%a)")
    assert facts.trigonometric(bare) == ("cosine from jit(step)/rope/cos", "sine from main.1")


def test_an_undonated_cache_is_named_and_so_is_its_copy(version):
    undonated = module(f"jax-{version}-undonated")
    assert facts.unaliased(undonated, ["cache"]) == ("cache['k'] f32[2,16,4]",)
    assert facts.copies(undonated, ["f32[2,16,4]"]) == ("copy.1: f32[2,16,4] copied in main.2",)


def test_a_donated_cache_has_nothing_to_name(version):
    donated = module(f"jax-{version}-donated")
    assert facts.unaliased(donated, ["cache"]) == ()
    assert facts.copies(donated, ["f32[2,16,4]"]) == ()


@pytest.mark.parametrize("path", ["state.cache.v[0]", "state['cache']['v'][0]", "state.cache", "state"])
def test_donations_are_matched_in_either_spelling_and_by_prefix(path):
    parsed = module("tpu-older")
    assert facts.unaliased(parsed, [path]) == ("state.cache.v[0] bf16[1,2,512,64]",)
    assert facts.matched(parsed, [path])


def test_a_prefix_ends_at_a_whole_name():
    assert facts.unaliased(module("tpu-older"), ["state.cache.v[0", "stat"]) == ()
    assert not facts.matched(module("tpu-older"), ["stat"])


def started(made, given):
    """Make a module that copies a cache array in the background, from one memory space to another."""
    kind = "bf16[1,2,512,64]{3,2,1,0:T(8,128)(2,1)"
    return entry(
        f"%a.1 = {kind}{given}}} parameter(0)",
        f"%copy-start.1 = ({kind}{made}}}, {kind}{given}}}, u32[]{{:S(2)}}) copy-start(%a.1)",
    )


@pytest.mark.parametrize("shape", ["bf16[1,2,512,64]", "bf16[2,512,64]"])
def test_asynchronous_copies_count_and_axes_of_size_one_do_not(shape):
    assert facts.copies(started("", ""), [shape]) == ("copy-start.1: bf16[1,2,512,64] copied in main.1",)


@pytest.mark.parametrize("shape", ["bf16[2,512,32]", "f32[1,2,512,64]"])
def test_copies_of_other_arrays_do_not_count(shape):
    assert facts.copies(started("", ""), [shape]) == ()


@pytest.mark.parametrize(
    ("made", "given", "count"), [("S(1)", "", 0), ("", "S(1)", 0), ("S(5)", "", 1), ("", "S(5)", 1)]
)
def test_what_is_brought_onto_the_chip_and_taken_back_is_no_copy(made, given, count):
    """A TPU works on a small cache there. What goes to the host's memory and comes back is one."""
    assert len(facts.copies(started(made, given), ["bf16[2,512,64]"])) == count


def test_a_copy_that_is_waited_for_is_told_by_where_its_operand_lies():
    """It has one type alone."""
    lines = ("%a.1 = f32[2,16,4]{2,1,0:S(1)} parameter(0)", "%copy.1 = f32[2,16,4]{2,1,0} copy(%a.1)")
    assert facts.copies(entry(*lines), ["f32[2,16,4]"]) == ()
    lines = ("%a.1 = f32[2,16,4]{2,1,0} parameter(0)", lines[1])
    assert facts.copies(entry(*lines), ["f32[2,16,4]"]) == ("copy.1: f32[2,16,4] copied in main.1",)


def test_a_decode_step_of_a_tpu_that_updates_its_cache_in_place_copies_none(texts):
    """Its compiler brings most of the cache onto the chip and back."""
    text = texts.golden("v5e-unrolled")
    assert re.search(r"copy-start\(%state_layers_1__keys", text)
    assert facts.copies(hlo.parse(text), ["bf16[2,128,32]"]) == ()


def returned(line):
    """Make a module that returns one cache array, made by ``line``, in a tuple."""
    root = "ROOT %t = (f32[2,16,4]{2,1,0}) tuple(%made)"
    text = f"%made = f32[2,16,4]{{2,1,0}} {line}"
    return entry("%a = f32[2,16,4]{2,1,0} parameter(0)", "%p = pred[2,16,4]{2,1,0} parameter(1)", text, root)


def test_a_cache_that_is_computed_as_a_whole_is_named_and_an_update_of_a_slice_is_not():
    chosen = returned(
        'select(%p, %a, %a), metadata={op_name="jit(step)/select_n" source_file="x/loop.py" source_line=7}'
    )
    assert rewrites(chosen, ["f32[1,2,16,4]"]) == ("made: f32[2,16,4] rewritten as a whole in main.1 from loop.py:7",)
    assert rewrites(chosen, ["f32[2,17,4]"]) == ()
    assert rewrites(returned("dynamic-update-slice(%a, %a, %i, %i, %i)"), ["f32[2,16,4]"]) == ()


def test_a_cache_that_is_the_only_result_is_looked_at_too():
    """A step that returns nothing but its state has no tuple around it."""
    given = "%a = f32[2,16,4]{2,1,0} parameter(0)"
    made = "made: f32[2,16,4] rewritten as a whole in main.1"
    chosen = entry(given, "ROOT %made = f32[2,16,4]{2,1,0} select(%p, %a, %a)")
    assert rewrites(chosen, ["f32[2,16,4]"]) == (made,)
    viewed = entry(given, "%made = f32[2,16,4]{2,1,0} add(%a, %a)", "ROOT %b = f32[2,64]{1,0} bitcast(%made)")
    assert rewrites(viewed, ["f32[2,16,4]"]) == (made,)
    updated = entry(given, "ROOT %u = f32[2,16,4]{2,1,0} dynamic-update-slice(%a, %a, %i, %i, %i)")
    assert rewrites(updated, ["f32[2,16,4]"]) == ()


def updated(*body):
    """Make a module that returns a bf16 cache array which a fusion with ``body`` makes of the old one."""
    fused = "".join(f"  {line}\n" for line in ("%p = bf16[2,16,4]{2,1,0} parameter(0)", *body))
    return hlo.parse(
        "HloModule m\n\n%fused (p: bf16[2,16,4]) -> bf16[2,16,4] {\n"
        + fused
        + "}\n\nENTRY %main.1 (a: bf16[2,16,4]) -> (bf16[2,16,4]) {\n  %a = bf16[2,16,4]{2,1,0} parameter(0)\n"
        "  %made = bf16[2,16,4]{2,1,0} fusion(%a), kind=kLoop, calls=%fused\n"
        "  ROOT %t = (bf16[2,16,4]{2,1,0}) tuple(%made)\n}\n"
    )


UP = "%up = f32[2,16,4]{2,1,0} convert(%p)"
UPDATE = "%d = f32[2,16,4]{2,1,0} dynamic-update-slice(%up, %n, %z, %z, %z)"
DOWN = "ROOT %down = bf16[2,16,4]{2,1,0} convert(%d)"


def test_a_cache_that_is_converted_as_a_whole_around_its_update_is_told_apart():
    """What XLA makes on a CPU of an update in bf16."""
    around = updated(UP, UPDATE, DOWN)
    assert converted(around, ["bf16[2,16,4]"]) == ("made: bf16[2,16,4] rewritten as a whole in main.1",)
    assert converted(around, ["bf16[2,17,4]"]) == converted(around, []) == ()
    assert rewrites(around, ["bf16[2,16,4]"]) == ()


def test_an_update_whose_new_part_alone_is_converted_is_none():
    part = "%c = bf16[2,1,4]{2,1,0} convert(%n)"
    plain = "ROOT %d = bf16[2,16,4]{2,1,0} dynamic-update-slice(%p, %c, %z, %z, %z)"
    assert converted(updated(part, plain), ["bf16[2,16,4]"]) == ()


def test_fusions_that_call_each_other_in_a_circle_end():
    text = "HloModule m\n\n%f (p: f32[4]) -> f32[4] {\n  ROOT %r = f32[4]{0} fusion(%p), kind=kLoop, calls=%f\n}\n\n"
    text += "ENTRY %main (a: f32[4]) -> (f32[4]) {\n  %m = f32[4]{0} fusion(%a), kind=kLoop, calls=%f\n"
    module = hlo.parse(text + "  ROOT %t = (f32[4]{0}) tuple(%m)\n}\n")
    assert rewrites(module, ["f32[4]"]) == converted(module, ["f32[4]"]) == ()


def test_lowered_programs_are_counted_by_operation():
    text = "%1 = stablehlo.cosine %0 : tensor<4xf32>\n%2 = stablehlo.add %1, %1\n%3 = stablehlo.cosine %2\n"
    assert stablehlo.operations(text) == {"cosine": 2, "add": 1}
    assert stablehlo.trigonometric(text) == {"cosine": 2}
    assert stablehlo.trigonometric("%2 = stablehlo.add %1, %1") == {}


@pytest.mark.parametrize(
    ("told", "size"),
    [
        ("copy.12: bf16[2,3,16] copied in main.14", 192),
        ("f.1: f32[1,2,36,64] rewritten as a whole in main", 18432),
        ("copy.1: pred[7] copied in main", 7),
        ("copy.1: s32[] copied in main", 4),
        ("copy.1: f32[<=8,2] copied in main", None),
        ("copy.1: token[] copied in main", None),
        ("copied", None),
    ],
)
def test_the_bytes_of_a_copy_are_known_where_its_shape_is(told, size):
    """A shape that does not say its size has none."""
    assert facts.copied_bytes(told) == size
