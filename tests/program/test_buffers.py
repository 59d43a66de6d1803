"""The bytes of an array are followed back to the argument that they come from."""

import pytest

from qwenperf.program import buffers

WEIGHT = "%w = bf16[24,64,32]{2,1,0} parameter(0), metadata={op_name=\"params['layers']['up']\"}"
CACHE = '%c = bf16[24,16,8]{2,1,0} parameter(1), metadata={op_name="state.keys"}'
STATE = "(s32[], bf16[24,64,32]{2,1,0}, bf16[24,16,8]{2,1,0})"
GO = "%go (p: (s32[])) -> pred[] {\n  ROOT %more = pred[] constant(true)\n}"


def looped(texts, *, weight="%w.1", cache="%updated"):
    """Make a loop whose body hands ``weight`` and ``cache`` on."""
    body = texts.computation(
        "body",
        f"%p = {STATE} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%w.1 = bf16[24,64,32]{2,1,0} get-tuple-element(%p), index=1",
        "%c.1 = bf16[24,16,8]{2,1,0} get-tuple-element(%p), index=2",
        "%slice = bf16[1,64,32]{2,1,0} dynamic-slice(%w.1, %i, %i, %i), dynamic_slice_sizes={1,64,32}",
        "%other = bf16[24,64,32]{2,1,0} negate(%w.1)",
        "%updated = bf16[24,16,8]{2,1,0} dynamic-update-slice(%c.1, %n, %i, %i, %i)",
        f"ROOT %t = {STATE} tuple(%i, {weight}, {cache})",
    )
    lines = (
        WEIGHT,
        CACHE,
        "%zero = s32[] constant(0)",
        f"%state = {STATE} tuple(%zero, %w, %c)",
        texts.loop(24, "body", state=STATE),
        "ROOT %out = bf16[24,16,8]{2,1,0} get-tuple-element(%loop), index=2",
    )
    return texts.parsed(*lines, computations=(body, GO))


def path(texts, module, name, **how):
    found = buffers.argument(module, texts.named(module, name), **how)
    return buffers.dotted(found.path) if found else None


def test_weights_that_a_loop_hands_on_unchanged_are_the_argument_inside_it(texts):
    module = looped(texts)
    assert path(texts, module, "w.1") == "params.layers.up"
    assert path(texts, module, "slice") is None
    assert path(texts, module, "slice", moved=True) == "params.layers.up"


def test_what_a_loop_changes_is_the_argument_only_where_moves_count(texts):
    module = looped(texts, weight="%other")
    assert path(texts, module, "w.1") is None
    assert path(texts, module, "w.1", moved=True) == "params.layers.up"
    assert path(texts, looped(texts), "c.1") is None


def test_the_result_of_a_loop_leads_to_what_it_began_with(texts):
    assert path(texts, looped(texts), "out", moved=True) == "state.keys"
    assert path(texts, looped(texts, cache="%c.1"), "out") == "state.keys"


def test_bytes_are_followed_into_fusions_and_out_again(texts):
    fused = texts.computation(
        "fused", "%p.1 = bf16[24,64,32]{2,1,0} parameter(1)", "ROOT %r = f32[24,64,32]{2,1,0} convert(%p.1)"
    )
    module = texts.parsed(
        WEIGHT,
        CACHE,
        "%up = f32[24,64,32]{2,1,0} fusion(%c, %w), kind=kLoop, calls=%fused",
        "ROOT %b = f32[24,2048]{1,0} bitcast(%up)",
        computations=(fused,),
    )
    assert path(texts, module, "b", moved=True) == "params.layers.up"
    assert path(texts, module, "b") is None


def test_arithmetic_makes_new_bytes(texts):
    module = texts.parsed(WEIGHT, "ROOT %n = bf16[24,64,32]{2,1,0} negate(%w)")
    assert path(texts, module, "n", moved=True) is None


def test_operations_that_are_each_others_operands_end(texts):
    module = texts.parsed("%x = f32[4]{0} bitcast(%y)", "ROOT %y = f32[4]{0} bitcast(%x)")
    assert path(texts, module, "y", moved=True) is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("params['layers'][0]['mlp']", "params.layers.0.mlp"),
        ('state["k"][3]', "state.k.3"),
        ("state.cache.k[0]", "state.cache.k.0"),
        ("x", "x"),
    ],
)
def test_key_paths_are_written_with_dots(written, expected):
    assert buffers.dotted(written) == expected


def test_a_root_ends_at_a_whole_name():
    assert buffers.is_below("params['up']", ["params"])
    assert not buffers.is_below("params_of_mine['up']", ["params"])
