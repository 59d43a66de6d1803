"""What stands behind an instruction's operands is read, and what is garbled is nothing."""

import pytest

from qwenperf.program import attributes
from qwenperf.program.attributes import Dimension

WHILE = ', condition=%cond.1, body=%body.2, backend_config={"known_trip_count":{"n":"24"},"known_init_step":{}}'


def test_a_loops_body_condition_and_trip_count_are_read():
    assert (attributes.body(WHILE), attributes.condition(WHILE), attributes.trip_count(WHILE)) == (
        "body.2",
        "cond.1",
        24,
    )
    assert attributes.trip_count(", condition=%cond.1, body=%body.2") is None


def test_all_computations_that_an_instruction_names_are_found_once():
    assert attributes.called(WHILE) == ("cond.1", "body.2")
    assert attributes.called(", branch_computations={%a, %b.1, %a}") == ("a", "b.1")
    assert attributes.called(", true_computation=%a, false_computation=b") == ("a", "b")
    assert attributes.called(", kind=kLoop, calls=%fused.3, metadata={}") == ("fused.3",)


def test_branches_keep_their_order():
    assert attributes.branches(", branch_computations={%b, %a}") == ("b", "a")
    assert attributes.branches(", true_computation=%t, false_computation=%f") == ("t", "f")


@pytest.mark.parametrize(
    ("told", "cycles"),
    [("1826", 1826.0), ("9223372036854775807", None), ("0", None), ("-3", None), ("1000000000001", None)],
)
def test_cycles_that_cannot_be_true_are_left_out(told, cycles):
    assert attributes.cycles(f'backend_config={{"window_config":{{"estimated_cycles":"{told}"}}}}') == cycles


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("replica_groups={{0,1},{2,3}}, dimensions={0}", 2),
        ("replica_groups={{0,1,2,3}}", 4),
        ("replica_groups=[2,4]<=[8]", 4),
        ("replica_groups=[1,8]<=[2,4]T(1,0)", 8),
        ("source_target_pairs={{0,1},{1,0}}", 2),
        ("replica_groups=mesh['a'=2,'b'=4,'c'=3], device_ids=([2,2]T(1,0)) {'b'}, dimensions={2}", 4),
        ("replica_groups=mesh['a'=2,'b'=4] {'a','b':(1)2}, channel_id=3", 4),
        ("replica_groups={}", None),
        ("channel_id=1", None),
    ],
)
def test_the_devices_of_one_exchange_are_counted(text, size):
    assert attributes.group_size(text) == size


def test_a_window_is_read_axis_by_axis():
    text = "window={size=3x1 stride=2x1 pad=1_1x-2_0 lhs_dilate=1x4 rhs_dilate=2x1}, dim_labels=b01f_01io->b01f"
    assert attributes.window(text) == (
        Dimension(size=3, stride=2, low=1, high=1, window_dilation=2),
        Dimension(size=1, low=-2, base_dilation=4),
    )
    assert attributes.dim_labels(text) == ("b01f", "01io", "b01f")
    assert attributes.window("window={}") == ()


def test_a_kernels_own_cost_is_read_from_its_estimate_only():
    text = '{"custom_call_config":{"cost_estimate":{"flops":"100","transcendentals":"5","bytes_accessed":"40"}}}'
    assert attributes.kernel_cost(text) == {"flops": 100.0, "bytes_accessed": 40.0}
    assert attributes.kernel_cost('{"flops":"100"}') == {}


def test_aliases_are_read_from_the_first_line():
    header = "HloModule m, input_output_alias={ {2}: (51, {}, may-alias), {0,1}: (3, {}, must-alias) }, entry={(f32[])}"
    assert attributes.aliased(header) == {51, 3}
    assert attributes.aliased("HloModule m") == frozenset()
