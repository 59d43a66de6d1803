"""Steps and operations of a trace are summed up from plain spans."""

import pytest

from qwenperf.traces.summary import Span, category, merge, overlap, self_times, stem, summarize

MS = 1e6


def span(name, start_ms, duration_ms, track="t0", device="cpu"):
    return Span(name=name, start_ns=start_ms * MS, duration_ns=duration_ms * MS, track=track, device=device)


STEPS = (span("decode", 0, 10), span("decode", 20, 10))


def test_busy_time_counts_what_runs_within_steps_once_and_the_rest_is_gap():
    operations = [span("dot.1", 1, 4), span("copy.2", 3, 4, "t1"), span("dot.9", 12, 5), span("dot.1", 25, 10)]
    summary = summarize(STEPS, operations)
    assert summary["steps"] == 2
    assert summary["step_s"] == pytest.approx([0.010, 0.010])
    assert summary["step_median_s"] == pytest.approx(0.010)
    assert summary["device_busy_s"] == pytest.approx(0.006 + 0.005)
    assert summary["host_gap_s"] == pytest.approx(0.020 - 0.011)


def test_two_devices_are_averaged_not_added():
    operations = [span("dot", 0, 10, device="gpu0"), span("dot", 0, 5, device="gpu1")]
    assert summarize(STEPS, operations)["device_busy_s"] == pytest.approx(0.0075)


def test_operations_are_grouped_by_stem_and_the_longest_come_first():
    operations = [span("copy.6", 0, 1), span("copy.7", 2, 1), span("%dot_fusion.3", 4, 5)]
    rows = summarize(STEPS, operations)["operations"]
    assert [(row["name"], row["category"], row["count"]) for row in rows] == [
        ("dot_fusion", "matmul", 1),
        ("copy", "copy", 2),
    ]
    assert [row["time_s"] for row in rows] == pytest.approx([0.005, 0.002])
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_only_the_top_operations_are_kept_and_all_are_counted():
    operations = [span(f"op{index}x", index, 1) for index in range(9)]
    summary = summarize(STEPS, operations, top=3)
    assert len(summary["operations"]) == 3
    assert summary["operation_count"] == 9


def test_a_loop_is_charged_only_for_what_its_body_does_not_take():
    operations = [span("while.5", 0, 10), span("dot.1", 1, 3), span("call.2", 5, 4), span("add.3", 6, 2)]
    assert self_times(operations) == pytest.approx([3 * MS, 3 * MS, 2 * MS, 2 * MS])


def test_operations_of_other_threads_are_not_nested():
    assert self_times([span("while.5", 0, 10), span("dot.1", 1, 3, "t1")]) == pytest.approx([10 * MS, 3 * MS])


def test_a_trace_with_nothing_in_it_has_a_summary_of_nothing():
    summary = summarize((), ())
    assert (summary["steps"], summary["device_busy_s"], summary["host_gap_s"]) == (0, 0.0, 0.0)
    assert summary["operations"] == []
    assert summary["step_median_s"] is None


def test_intervals_merge_and_overlap():
    assert merge([(5, 7), (0, 2), (1, 3), (7, 8)]) == [(0, 3), (5, 8)]
    assert overlap([(0, 3), (5, 8)], [(2, 6), (7, 20)]) == 1 + 1 + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [("copy.6", "copy"), ("%fusion.12.clone.3", "fusion"), ("wrapped_add", "wrapped_add"), ("f.1 = f32[4] add", "f")],
)
def test_numbering_is_left_out_of_names(name, expected):
    assert stem(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ynn_fusion", "matmul"),
        ("dot.3", "matmul"),
        ("select_dynamic-update-slice_fusion", "cache update"),
        ("multiply_reduce_fusion", "reduction"),
        ("broadcast_add_fusion", "elementwise"),
        ("bitcast_add_fusion", "elementwise"),
        ("transpose_copy_fusion", "copy"),
        ("dynamic-slice.4", "gather"),
        ("all-reduce-start", "collective"),
        ("while", "control"),
        ("rng", "other"),
    ],
)
def test_categories_follow_names(name, expected):
    assert category(name) == expected
