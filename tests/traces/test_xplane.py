"""Profiles of CPU, GPU and TPU are read into the same steps and operations; a file that is none is an error."""

from contextlib import contextmanager

import pytest

from qwenperf.errors import RecordError
from qwenperf.traces import xplane
from qwenperf.traces.summary import summarize

STEPS = ((0, 100), (100, 100))


def names(profile):
    return [profile.keys[key].name for track in profile.tracks for key in track.key]


def test_a_cpus_operations_are_those_that_name_their_instruction(saved, xspaces):
    plane = xspaces.cpu(STEPS, [("dot.1", 10, 20), ("copy.2", 40, 5)], [("PjitFunction(f)", 2, 90)])
    plane.line("tf_XLAEigen/2", [plane.event("end: dot.1", 30, 1), plane.operation("dot.1", 110, 20, run=2)], 0)
    profile = xplane.read(saved(plane), "decode")
    assert [(step.start_ps, step.end_ps) for step in profile.steps] == [
        (0, 100 * xspaces.US),
        (100 * xspaces.US, 200 * xspaces.US),
    ]
    assert sorted(names(profile)) == ["copy.2", "dot.1", "dot.1"]
    assert {(key.program, key.program_id) for key in profile.keys if key.name == "dot.1"} == {("jit_step", 7)}
    assert [profile.keys[key].name for track in profile.host for key in track.key] == ["PjitFunction(f)"]
    assert profile.launches_ps == (10 * xspaces.US, 110 * xspaces.US)


def test_clocks_of_lines_are_brought_together(saved, xspaces):
    plane = xspaces.Plane("/host:CPU")
    plane.line("python", [plane.event("decode", 1, 50, step_num=0)], start_ns=5_000_000_000_000_000_000)
    plane.line("work", [plane.operation("dot.1", 0, 7)], start_ns=5_000_000_000_000_003_000)
    profile = xplane.read(saved(plane))
    assert (profile.steps[0].start_ps, int(profile.tracks[0].start_ps[0])) == (xspaces.US, 3 * xspaces.US)


def test_a_gpus_streams_are_its_operations_and_the_hosts_own_are_not(saved, xspaces):
    gpu = xspaces.Plane("/device:GPU:0")
    gpu.line("Stream #13(Compute)", [gpu.operation("gemm_fusion.3", 10, 30), gpu.event("MemcpyD2H", 50, 5)])
    gpu.line("Framework Ops", [gpu.event("jit(step)/dot", 10, 30)])
    host = xspaces.cpu(STEPS, [("dot.9", 0, 100)], [("PjRtCApiLoadedExecutable::Execute", 3, 4)])
    profile = xplane.read(saved(gpu, host), "decode")
    assert names(profile) == ["gemm_fusion.3", "MemcpyD2H"]
    assert summarize(profile)["device_busy_s"] == pytest.approx(35e-6)


def test_a_tpus_operations_tell_category_source_and_cost_themselves(saved, xspaces):
    text = "%fusion.4 = bf16[8,128]{1,0:T(8,128)} fusion(bf16[8,64]{1,0} %p), kind=kOutput"
    tpu = xspaces.Plane("/device:TPU:0").known(
        text,
        "fusion.4",
        program_id=7,
        hlo_category="convolution fusion",
        tf_op="jit(step)/mlp/dot_general:",
        source="/home/me/model.py:12",
        flops=1000,
        bytes_accessed=500,
    )
    tpu.line("XLA Modules", [tpu.event("jit_step(7)", 5, 60)])
    tpu.line("XLA Ops", [tpu.event("%while.1", 5, 60), tpu.event(text, 10, 40)])
    tpu.line("Async XLA Ops", [tpu.event("copy-start", 0, 90)])
    meta = xspaces.Plane("/host:metadata")
    meta.about["jit_step(7)"] = ("", xspaces.block(5, xspaces.stat(meta.stat_of("program_id"), 7)))
    profile = xplane.read(saved(tpu, xspaces.cpu(STEPS, []), meta), "decode")
    rows = {row["name"]: row for row in summarize(profile)["operations"]}
    assert set(rows) == {"while", "fusion"}
    assert rows["fusion"]["category"] == "matmul"
    assert (rows["fusion"]["source"], rows["fusion"]["shape"]) == ("me/model.py:12", "bf16[8,128]")
    assert (rows["fusion"]["flops"], rows["fusion"]["bytes"]) == (1000, 500)
    assert (rows["while"]["category"], rows["while"]["time_s"]) == ("control", pytest.approx(20e-6))
    assert len(profile.launches_ps) == 1


def test_without_a_name_any_annotated_step_is_one(saved, xspaces):
    file = saved(xspaces.cpu(STEPS, [("dot.1", 10, 20)], step_name="train"))
    assert len(xplane.read(file).steps) == 2
    assert xplane.read(file, "decode").steps == ()


def test_complaints_of_the_profiler_are_kept(saved, xspaces):
    profile = xplane.read(saved(xspaces.cpu(STEPS, []), warnings=["dropped 3 events"]))
    assert profile.remarks == ("dropped 3 events",)


def test_an_operation_that_lost_its_mark_keeps_the_name_of_its_event(saved, xspaces):
    plane = xspaces.cpu(STEPS, [("dot.1", 10, 20)])
    plane.line("tf_XLAEigen/1", [plane.operation("dot.1", 110, 20), plane.event("dot.1", 140, 5)])
    assert names(xplane.read(saved(plane), "decode")) == ["dot.1"] * 3


def test_an_event_of_unknown_number_is_no_operation(saved, xspaces):
    plane = xspaces.cpu(STEPS, [("dot.1", 10, 20)])
    plane.lines += xspaces.block(
        3, xspaces.block(2, "odd") + xspaces.block(4, xspaces.number(1, 999) + xspaces.number(3, 5))
    )
    assert names(xplane.read(saved(plane), "decode")) == ["dot.1"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"hello, I am no trace", "no readable profile"),
        (bytes(64), "holds no plane"),
        (b"\xff" * 64, "no readable"),
    ],
)
def test_a_file_that_is_no_profile_is_an_error_with_its_name(content, told, tmp_path):
    file = tmp_path / "odd.xplane.pb"
    file.write_bytes(content)
    with pytest.raises(RecordError, match=f"odd.xplane.pb.*{told}"):
        xplane.read(file)
    with pytest.raises(RecordError, match="is no file"):
        xplane.read(tmp_path)


def test_a_profile_that_is_cut_or_damaged_anywhere_is_an_error_or_read(saved, xspaces):
    """Never anything else: no traceback, no hang."""
    file = saved(xspaces.cpu(STEPS, [("dot.1", 10, 20), ("copy.2", 40, 5)], [("f", 1, 2)]))
    whole, told = file.read_bytes(), []
    for at in range(1, len(whole), 5):
        for damaged in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :], whole[:at] + b"\0" + whole[at + 1 :]):
            file.write_bytes(damaged)
            with suppress_and_note(told):
                summarize(xplane.read(file, "decode"))
    assert len(told) > 50
    assert all("host.xplane.pb" in message for message in told)


@contextmanager
def suppress_and_note(told):
    """Note the one error that is allowed."""
    try:
        yield
    except RecordError as error:
        told.append(error.message)
