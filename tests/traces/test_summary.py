"""A profile is summed up: steps, busy time, gaps, operations that are the same but for their number."""

import pytest

from qwenperf.traces import xplane
from qwenperf.traces.attribution import coverage, innermost, merged
from qwenperf.traces.rows import stem
from qwenperf.traces.summary import summarize

STEPS = ((0, 100), (200, 100))


@pytest.fixture
def summary_of(saved, xspaces):
    """Sum up a CPU's profile from its parts."""

    def make(steps, operations, host=(), **more):
        return summarize(
            xplane.read(saved(xspaces.cpu(steps, operations, host, threads=more.pop("threads", None))), "decode"),
            **more,
        )

    return make


def row(summary, name):
    return next(one for one in summary["operations"] if one["name"] == name)


def us(value):
    return pytest.approx(value * 1e-6)


def test_busy_time_counts_what_runs_within_steps_once_and_the_rest_is_gap(summary_of):
    threads = {"a": [("dot.1", 10, 40), ("dot.9", 120, 50), ("dot.1", 250, 100)], "b": [("copy.2", 30, 40)]}
    summary = summary_of(STEPS, (), threads=threads)
    assert (summary["steps"], summary["step_s"]) == (2, [us(100), us(100)])
    assert summary["step_median_s"] == us(100)
    assert summary["step_busy_s"] == [us(60), us(50)]
    assert (summary["device_busy_s"], summary["host_gap_s"]) == (us(110), us(90))


def test_shares_of_the_wall_and_the_gap_add_up_to_the_steps(summary_of):
    """Two at once get half an instant each; the time of their threads is told beside it."""
    summary = summary_of(((0, 100),), (), threads={"a": [("dot.1", 10, 40)], "b": [("copy.2", 30, 40)]})
    assert (row(summary, "dot")["time_s"], row(summary, "dot")["wall_s"]) == (us(40), us(30))
    assert (row(summary, "copy")["time_s"], row(summary, "copy")["wall_s"]) == (us(40), us(30))
    assert sum(one["wall_s"] for one in summary["operations"]) + summary["host"]["gap_s"] == us(100)


def test_two_devices_are_averaged_not_added(saved, xspaces):
    planes = [xspaces.Plane(f"/device:GPU:{index}") for index in range(2)]
    for plane, spent in zip(planes, (100, 50), strict=True):
        plane.line("Stream #1", [plane.operation("dot.1", 0, spent)])
    summary = summarize(xplane.read(saved(*planes, xspaces.cpu(((0, 100),), ())), "decode"))
    assert summary["device_busy_s"] == us(75)
    assert (row(summary, "dot")["count"], row(summary, "dot")["wall_s"]) == (1, us(75))


@pytest.mark.parametrize(("devices", "steps"), [(2, 1), (4, 1), (2, 3), (8, 3)])
def test_runs_on_several_tpus_are_those_of_one(saved, xspaces, devices, steps):
    """Each of them names its operations itself, and a share of a run is rounded away only in the sum."""
    planes = []
    for index in range(devices):
        tpu = xspaces.Plane(f"/device:TPU:{index}").known("%dot.1 = f32[8]{0} dot(%a, %b)", "dot.1", flops=1000)
        runs = [tpu.event("%dot.1 = f32[8]{0} dot(%a, %b)", 100 * step + 10, 50) for step in range(steps)]
        planes.append(tpu.line("XLA Ops", runs))
    whole = xspaces.cpu([(100 * step, 100) for step in range(steps)], ())
    seen = row(summarize(xplane.read(saved(*planes, whole), "decode")), "dot")
    assert (seen["count"], seen["flops"], seen["time_s"]) == (steps, 1000 * steps, us(50 * steps))


def test_operations_are_grouped_by_what_they_are_and_the_longest_come_first(summary_of):
    summary = summary_of(STEPS, [("copy.6", 0, 10), ("copy.7", 20, 10), ("%dot_fusion.3", 40, 50)])
    assert [(one["name"], one["category"], one["count"]) for one in summary["operations"]] == [
        ("dot_fusion", "matmul", 1),
        ("copy", "copy", 2),
    ]
    assert sum(one["share"] for one in summary["operations"]) == pytest.approx(1.0)
    assert {name: one["count"] for name, one in summary["categories"].items()} == {"matmul": 1, "copy": 2}


def test_one_name_in_two_programs_is_two_operations(summary_of):
    summary = summary_of(STEPS, [("dot.1", 0, 10, "jit_a", 1), ("dot.1", 20, 10, "jit_b", 2)])
    assert [(one["name"], one["program"]) for one in summary["operations"]] == [("dot", "jit_a"), ("dot", "jit_b")]


def test_only_the_top_operations_are_kept_and_all_are_counted(summary_of):
    summary = summary_of(STEPS, [(f"op{index}x", 10 * index, 5) for index in range(9)], top=3)
    assert (len(summary["operations"]), summary["operation_count"]) == (3, 9)
    assert summary["categories"]["other"]["wall_s"] == us(45)


def test_a_loop_is_charged_only_for_what_its_body_does_not_take(summary_of):
    operations = [("while.5", 0, 100), ("dot.1", 10, 30), ("call.2", 50, 40), ("add.3", 60, 20)]
    summary = summary_of(STEPS, operations)
    times = {one["name"]: one["time_s"] for one in summary["operations"]}
    assert times == {"while": us(30), "dot": us(30), "call": us(20), "add": us(20)}


def test_a_step_of_more_than_twice_the_median_is_left_out_of_the_operations_and_told(summary_of):
    steps = (*((1000 * index, 100) for index in range(4)), (9000, 700))
    operations = [*(("dot.1", 1000 * index, 10) for index in range(4)), ("dot.1", 9000, 600)]
    summary = summary_of(steps, operations)
    assert (summary["steps"], summary["typical_steps"], summary["typical_s"]) == (5, 4, us(400))
    assert row(summary, "dot")["time_s"] == us(40)
    assert summary["device_busy_s"] == us(640)


def test_steps_within_steps_are_one_step(summary_of):
    """Nothing was slow, and so nothing is said to be left out."""
    summary = summary_of(((0, 300), (10, 80), (120, 80)), [("dot.1", 20, 50), ("dot.1", 130, 50)])
    assert (summary["steps"], summary["typical_steps"], summary["step_s"]) == (1, 1, [us(300)])


def test_a_step_of_exactly_twice_the_median_is_kept(summary_of):
    assert summary_of(((0, 100), (200, 100), (400, 200)), [("dot.1", 0, 50)])["typical_steps"] == 3


def test_steps_without_a_gap_between_them_are_as_many(summary_of):
    """A loop of annotated steps does nothing in between; what touches is not one long step."""
    operations = [("dot.1", 100 * index + 10, 40) for index in range(3)]
    summary = summary_of(tuple((100 * index, 100) for index in range(3)), operations)
    assert (summary["steps"], summary["step_s"]) == (3, [us(100)] * 3)
    assert summary["step_busy_s"] == [us(40)] * 3
    assert row(summary, "dot")["count"] == 3
    assert summary["host_gap_s"] == us(180)


def test_the_host_is_told_of_where_no_operation_runs(summary_of):
    host = [("PjitFunction(f)", 0, 60), ("ParseArguments", 10, 20), ("Elsewhere", 150, 20)]
    summary = summary_of(((0, 100),), [("dot.1", 50, 30)], host)
    doing = {one["name"]: one["time_s"] for one in summary["host"]["doing"]}
    assert doing == {"PjitFunction(f)": us(30), "ParseArguments": us(20), "Python": us(20)}
    assert summary["host"]["gap_s"] == us(70)


def test_runs_of_programs_are_counted_a_step(summary_of):
    operations = [("dot.1", 5, 10, "jit_a", 1, 1), ("copy.1", 20, 5, "jit_a", 1, 1), ("dot.1", 210, 10, "jit_a", 1, 2)]
    assert summary_of(STEPS, operations)["dispatches"] == [1, 1]


def test_a_trace_with_nothing_in_it_has_a_summary_of_nothing(summary_of):
    summary = summary_of((), ())
    assert (summary["steps"], summary["device_busy_s"], summary["host_gap_s"]) == (0, 0.0, 0.0)
    assert (summary["operations"], summary["step_s"], summary["step_median_s"]) == ([], [], None)


def test_a_trace_without_steps_is_summed_up_as_a_whole(summary_of):
    summary = summary_of((), [("dot.1", 10, 40), ("dot.2", 60, 40)])
    assert (summary["steps"], summary["typical_s"], row(summary, "dot")["count"]) == (0, us(90), 2)


@pytest.mark.parametrize("proto", [b"", b"junk", b"\x0a\x04\x1a\x02\x12\x00", b"\x0a\x08" + bytes(range(8))])
def test_a_program_that_cannot_be_read_costs_its_origins_only(proto, saved, xspaces):
    """Names remain."""
    meta = xspaces.Plane("/host:metadata").known("jit_step(7)", program_id=7, **{"Hlo Proto": proto})
    profile = xplane.read(saved(meta, xspaces.cpu(STEPS, [("dot.1", 10, 40)])), "decode")
    assert [one.name for one in profile.programs] == ["jit_step"]
    assert row(summarize(profile), "dot")["category"] == "matmul"


def test_windows_merge():
    assert merged([(5, 7), (0, 2), (1, 3), (7, 8)]) == [(0, 3), (5, 7), (7, 8)]


def test_pieces_of_overlapping_operations_are_disjoint_and_complete(saved, xspaces):
    """Whatever a thread's events look like, each instant has one innermost operation."""
    operations = [("a", 0, 50), ("b", 10, 20), ("c", 15, 5), ("d", 40, 30), ("e", 65, 5), ("a", 80, 10)]
    (track,) = xplane.read(saved(xspaces.cpu((), operations))).tracks
    pieces = innermost(track)
    assert (pieces.start[1:] >= pieces.end[:-1]).all()
    assert (pieces.end - pieces.start).sum() == 80 * xspaces.US
    seen = coverage([pieces], [(0, 100 * xspaces.US)])
    assert seen.busy[-1] == 80 * xspaces.US


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("copy.6", "copy"),
        ("%fusion.12.clone.3", "fusion"),
        ("wrapped_add", "wrapped_add"),
        ("f.1 = f32[4] add", "f"),
        ("CudaGraphExec:12", "CudaGraphExec"),
    ],
)
def test_numbering_is_left_out_of_names(name, expected):
    assert stem(name) == expected
