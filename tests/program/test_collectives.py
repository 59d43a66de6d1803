"""Exchanges between devices are counted with kind, bytes and rounds."""

import pytest

from qwenperf.program import collectives, loops

WEIGHT = "%w = bf16[4,64,32]{2,1,0} parameter(0), metadata={op_name=\"params['up']\"}"
STATE = "(s32[], f32[1,64]{1,0}, bf16[4,64,32]{2,1,0})"
GO = "%go (p: (s32[])) -> pred[] {\n  ROOT %more = pred[] constant(true)\n}"
SUM = (
    "%r = f32[1,64]{1,0} all-reduce(%x), replica_groups={{0,1},{2,3}}, to_apply=%add, "
    'metadata={op_name="jit(step)/dot_general" source_file="/src/layers.py" source_line=112}'
)


def found(texts, *lines, **parts):
    module = texts.parsed(*lines, **parts)
    return collectives.collectives(module, loops.schedule(module))


def layered(texts, trips, line=SUM, stacked=4):
    body = texts.computation(
        "body",
        f"%p = {STATE} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%x = f32[1,64]{1,0} get-tuple-element(%p), index=1",
        f"%w.1 = bf16[{stacked},64,32]{{2,1,0}} get-tuple-element(%p), index=2",
        line,
        f"ROOT %t = {STATE} tuple(%i, %r, %w.1)",
    )
    zeros = ("%z = s32[] constant(0)", "%h = f32[1,64]{1,0} constant({...})")
    lines = (WEIGHT, *zeros, f"%state = {STATE} tuple(%z, %h, %w)", texts.loop(trips, "body", state=STATE))
    return found(texts, *lines, computations=(body, GO))


def test_an_exchange_in_the_loop_over_the_layers_is_counted_per_layer(texts):
    (one,) = layered(texts, 4)
    assert (one.kind, one.shape, one.bytes, one.runs, one.per_layer) == ("all-reduce", "f32[1,64]", 256, 4, True)
    assert (one.source, one.extra["group"]) == ("layers.py:112", 2)


def test_a_loop_over_tokens_is_none_over_layers(texts):
    assert not layered(texts, 9)[0].per_layer
    assert not layered(texts, None)[0].per_layer


@pytest.mark.parametrize(
    ("line", "kind", "size"),
    [
        ("%r = (f32[16]{0}, f32[64]{0}) all-gather-start(%x), dimensions={0}", "all-gather", 256),
        ("%r = f32[64]{0} all-reduce-start(%x), to_apply=%add", "all-reduce", 256),
        ("%r = (f32[64]{0}, f32[64]{0}, u32[], u32[]) collective-permute-start(%x)", "collective-permute", 256),
        ("%r = f32[16]{0} reduce-scatter(%x), dimensions={0}, to_apply=%add", "reduce-scatter", 64),
        ("%r = (f32[8]{0}, f32[8]{0}) all-to-all(%x, %x)", "all-to-all", 64),
    ],
)
def test_each_kind_is_told_and_its_start_is_it(texts, line, kind, size):
    (one,) = found(texts, "%x = f32[64]{0} parameter(0)", line)
    assert (one.kind, one.bytes, one.runs, one.per_layer) == (kind, size, 1, False)


def test_the_end_of_an_exchange_is_no_second_one(texts):
    lines = ("%s = f32[64]{0} all-reduce-start(%a), to_apply=%add", "ROOT %r = f32[64]{0} all-reduce-done(%s)")
    assert len(found(texts, *lines)) == 1


def test_an_exchange_inside_a_fusion_is_found(texts):
    body = texts.computation(
        "fused", "%x = f32[64]{0} parameter(0)", f"ROOT {SUM.replace('f32[1,64]{1,0}', 'f32[64]{0}')}"
    )
    (one,) = found(texts, "ROOT %f = f32[64]{0} fusion(%a), kind=kCustom, calls=%fused", computations=(body,))
    assert (one.kind, one.source) == ("all-reduce", "layers.py:112")


def test_what_is_gathered_is_named_by_its_argument(texts):
    line = "ROOT %r = bf16[8,64,32]{2,1,0} all-gather(%w), dimensions={0}, replica_groups=[1,2]<=[2]"
    (one,) = found(texts, WEIGHT, line)
    assert one.extra == {"group": 2, "buffer": "params.up"}


def test_an_exchange_that_goes_on_during_several_fusions_is_one(texts):
    gather = "all-gather(%x), channel_id=28, dimensions={0}, replica_groups={{0,1}}"
    fused = [
        texts.computation(name, "%x = f32[4]{0} parameter(0)", f"ROOT %g.{name} = f32[8]{{0}} {gather}")
        for name in ("begin", "middle", "end")
    ]
    entry = [f"%f.{name} = f32[8]{{0}} fusion(%a), kind=kCustom, calls=%{name}" for name in ("begin", "middle", "end")]
    (one,) = found(texts, *entry, computations=fused)
    assert one.operation == "g.begin"
    apart = [one.replace("channel_id=28", f"channel_id={number}") for number, one in enumerate(fused)]
    assert len(found(texts, *entry, computations=apart)) == 3
