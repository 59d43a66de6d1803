"""What changed between two compilations is told by operation, the largest effect first."""

from dataclasses import replace

import pytest

from qwenperf.program.analysis import MOST_OPERATIONS
from qwenperf.program.difference import explain, same_program
from qwenperf.schema.analysis import BufferCopy, Collective, OperationCost, ProgramAnalysis

DOT = OperationCost(
    name="dot.1",
    opcode="dot",
    category="matmul",
    shape="bf16[1,9728]",
    source="layers.py:112",
    op_name="jit(step)/while/body/closed_call/dot_general",
    runs=24,
    flops=4e8,
    bytes=4e8,
)
BASE = ProgramAnalysis(name="decode_step", fingerprint="a", operations=(DOT,))
RELAYOUT = BufferCopy(
    kind="relayout",
    shape="bf16[24,896,9728]",
    bytes=418_381_824,
    buffer="params.layers.w_gate_up",
    source="qwen2.py:88",
)


def head(**changes):
    return replace(BASE, fingerprint="b", **changes)


def test_a_new_relayout_is_told_with_buffer_size_and_line():
    (change,) = explain(BASE, head(copies=(RELAYOUT,)))
    assert change.message == (
        "new: copy of `params.layers.w_gate_up` (bf16[24,896,9728]) to another layout, from qwen2.py:88: 0 B -> 418 MB"
    )
    assert (change.kind, change.buffer, change.source, change.worse) == (
        "copy",
        "params.layers.w_gate_up",
        "qwen2.py:88",
        True,
    )
    (back,) = explain(head(copies=(RELAYOUT,)), BASE)
    assert back.message.startswith("gone: copy of")
    assert not back.worse


def test_one_program_has_nothing_to_tell_whatever_its_names_and_lines():
    assert same_program(BASE, replace(BASE, copies=(RELAYOUT,)))
    assert explain(BASE, replace(BASE, copies=(RELAYOUT,))) == ()
    assert not same_program(replace(BASE, fingerprint=""), replace(BASE, fingerprint=""))


def test_another_line_or_another_layer_is_no_change():
    moved = replace(DOT, source="layers.py:140", name="dot.7")
    assert explain(BASE, head(operations=(moved,))) == ()
    copy = replace(RELAYOUT, source="qwen2.py:99")
    assert explain(head(copies=(RELAYOUT,)), replace(BASE, fingerprint="c", copies=(copy,))) == ()


def test_an_operation_in_a_loop_is_matched_with_the_unrolled_one():
    unrolled = replace(DOT, op_name="jit(decode_step)/dot_general")
    assert explain(BASE, head(operations=(unrolled,))) == ()


def test_an_operation_that_costs_more_says_how_much():
    (change,) = explain(BASE, head(operations=(replace(DOT, bytes=8e8),)))
    assert change.message == "changed: matmul bf16[1,9728] from layers.py:112: 400 MB -> 800 MB"
    assert change.effect == pytest.approx(4e8)


def test_an_operation_of_the_same_work_that_takes_more_cycles_says_so():
    before, after = replace(DOT, cycles=1000.0), replace(DOT, cycles=3000.0)
    (change,) = explain(replace(BASE, operations=(before,)), head(operations=(after,)))
    assert change.message == "changed: matmul bf16[1,9728] from layers.py:112: 1,000 cycles -> 3,000 cycles"
    assert change.worse
    near = replace(DOT, cycles=1005.0)
    assert explain(replace(BASE, operations=(before,)), head(operations=(near,))) == ()


def test_an_operation_of_another_shape_is_compared_with_what_it_was():
    wider = replace(DOT, shape="f32[1,9728]", bytes=8e8)
    (change,) = explain(BASE, head(operations=(wider,)))
    assert change.message == "changed: matmul bf16[1,9728] -> f32[1,9728] from layers.py:112: 400 MB -> 800 MB"


def test_an_operation_that_was_renamed_is_compared_with_what_it_was():
    renamed = replace(DOT, op_name="jit(step)/bd,df->bf/dot_general", shape="bf16[9728]")
    assert explain(BASE, head(operations=(renamed,))) == ()
    (change,) = explain(BASE, head(operations=(replace(renamed, bytes=8e8),)))
    assert change.message == "changed: matmul bf16[1,9728] -> bf16[9728] from layers.py:112: 400 MB -> 800 MB"


def test_new_exchanges_are_counted():
    one = Collective(kind="all-gather", shape="bf16[896]", bytes=1792, runs=24, source="qwen2.py:50")
    (change,) = explain(BASE, head(collectives=(one,)))
    assert change.message == "new: all-gather of bf16[896], 0 -> 24 times a call, from qwen2.py:50: 0 B -> 43.0 kB"
    assert change.worse


@pytest.mark.parametrize(
    ("field", "kind", "worse"),
    [
        ("unaliased_donations", "donation", True),
        ("host_calls", "host", True),
        ("double_precision", "precision", True),
        ("trigonometric", "trigonometric", True),
        ("kernels", "kernel", False),
    ],
)
def test_what_appears_and_what_vanishes_is_named(field, kind, worse):
    with_one = head(**{field: ("this from rotary.py:3",)})
    (change,) = explain(BASE, with_one)
    assert (change.kind, change.worse) == (kind, worse)
    assert "this from rotary.py:3" in change.message
    (gone,) = explain(with_one, BASE)
    assert gone.message.startswith("gone: ")
    assert not gone.worse
    other_line = replace(BASE, fingerprint="c", **{field: ("this from rotary.py:9",)})
    assert explain(with_one, other_line) == ()


def test_the_largest_effect_comes_first_and_worse_before_better():
    base = replace(BASE, copies=(replace(RELAYOUT, buffer="params.other"),))
    small = replace(RELAYOUT, buffer="params.small", bytes=10)
    changes = explain(base, head(copies=(RELAYOUT, small)))
    assert [change.buffer for change in changes] == ["params.layers.w_gate_up", "params.other", "params.small"]
    assert [change.worse for change in changes] == [True, False, True]


def test_what_fell_off_the_end_of_a_full_list_is_not_gone():
    many = tuple(replace(DOT, op_name=f"op_{number}", flops=0.0, bytes=1e6) for number in range(MOST_OPERATIONS - 1))
    last = replace(DOT, op_name="last", flops=0.0, bytes=10.0)
    last, costly = (
        replace(last, source="last.py:1"),
        replace(DOT, op_name="costly", flops=0.0, bytes=5e8, source="new.py:3"),
    )
    full, pushed = replace(BASE, operations=(*many, last)), head(operations=(costly, *many))
    (change,) = explain(full, pushed)
    assert change.message.startswith("new: matmul")
    # A list that was not cut holds everything: then it is gone.
    assert len(explain(full, head(operations=(costly, *many[1:])))) > 1
