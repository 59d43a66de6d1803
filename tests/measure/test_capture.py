"""Profiles are saved where viewers look, whole or not at all, and checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import OutputError, RecordError, UsageError
from qwenperf.measure import xplane
from qwenperf.measure.capture import STEP_NAME, capture, session_name


@pytest.fixture(scope="module")
def step():
    """One step of real device work, compiled."""
    function = jax.jit(lambda x, w: jax.lax.fori_loop(0, 2, lambda _, y: jnp.tanh(y @ w), x))
    x = jnp.ones((64, 64))
    jax.block_until_ready(function(x, x))
    return lambda: function(x, x)


def left(folder):
    """Every file below ``folder``, and every folder that ours would leave behind."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or path.name[0] == ".")


@pytest.fixture(scope="module")
def saved(step, tmp_path_factory):
    """Two captures of one process, one right after the other."""
    folder = tmp_path_factory.mktemp("run")
    return folder, [capture(folder, f"session-{index}", step, steps=3) for index in range(2)]


def test_two_captures_within_a_second_lie_side_by_side_and_nothing_else_is_left(saved):
    folder, captures = saved
    assert all(one.findings == () for one in captures)
    assert left(folder) == [str(one.path.relative_to(folder)) for one in captures]
    for index, one in enumerate(captures):
        assert one.path.parent == folder / "plugins" / "profile" / f"session-{index}"
        assert one.path.name.endswith(".xplane.pb")


def test_the_summary_has_our_steps_and_the_devices_operations(saved):
    summary = saved[1][0].summary
    assert summary["steps"] == len(summary["step_s"]) == 3
    assert 0 < summary["device_busy_s"] <= sum(summary["step_s"])
    assert summary["bytes"] == saved[1][0].path.stat().st_size
    assert {"matmul"} & {row["category"] for row in summary["operations"]}


def test_steps_and_operations_can_be_read_again(saved):
    profile = xplane.read(saved[1][1].path, STEP_NAME)
    assert len(profile.steps) == 3
    assert all(step.duration_ns > 0 for step in profile.steps)
    assert profile.operations
    assert profile.steps[0].start_ns < profile.steps[1].start_ns


def test_a_session_that_is_there_is_kept_and_the_second_is_a_finding(saved, step):
    folder, captures = saved
    before = captures[0].path.read_bytes()
    again = capture(folder, "session-0", step)
    assert (again.path, again.findings[0].code) == (None, "trace-exists")
    assert captures[0].path.read_bytes() == before


def test_a_profile_over_the_limit_is_removed_and_said_so(step, tmp_path):
    result = capture(tmp_path, "big", step, steps=1, max_bytes=100)
    assert (result.path, result.summary) == (None, None)
    assert result.findings[0].code == "trace-too-large"
    assert "over the limit of 100 B" in result.findings[0].message
    assert left(tmp_path) == []


def test_steps_without_device_work_are_tried_twice_then_a_finding_with_its_cause(tmp_path):
    calls = []
    result = capture(tmp_path, "idle", lambda: calls.append(1), steps=2)
    assert len(calls) == 4
    assert result.findings[0].code == "trace-without-operations"
    assert "/host:CPU" in result.findings[0].message
    assert left(tmp_path) == []


def test_a_profiler_in_use_is_a_finding_and_the_other_trace_goes_on(step, tmp_path):
    jax.profiler.start_trace(str(tmp_path / "other"))
    try:
        result = capture(tmp_path / "ours", "busy", step, steps=1)
    finally:
        jax.profiler.stop_trace()
    assert result.findings[0].code == "profiler-busy"
    assert list((tmp_path / "other").rglob("*.xplane.pb"))
    assert left(tmp_path / "ours") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_capture_leaves_nothing_and_frees_the_profiler(error, step, tmp_path):
    def interrupted():
        raise error

    with pytest.raises(error):
        capture(tmp_path, "cut", interrupted)
    assert left(tmp_path) == []
    assert capture(tmp_path, "cut", step, steps=1).path is not None


def test_what_a_killed_process_left_is_swept_away(step, tmp_path):
    (tmp_path / ".capture-999999999-old").mkdir()
    (tmp_path / ".capture-1-alive").mkdir()
    capture(tmp_path, "next", step, steps=1)
    assert [path.name for path in tmp_path.glob(".capture-*")] == [".capture-1-alive"]


def test_a_deadline_cuts_the_steps_and_says_so(step, tmp_path):
    times = iter(range(100))
    result = capture(tmp_path, "short", step, steps=50, deadline_s=3.0, now=lambda: next(times))
    assert result.summary["steps"] == 3
    assert result.findings[0].code == "trace-cut"
    assert "3 of 50 steps" in result.findings[0].message


def test_a_place_that_cannot_be_written_is_an_error_with_its_name(step, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="file"):
        capture(tmp_path / "file", "any", step)


def test_bad_requests_are_refused(step, tmp_path):
    with pytest.raises(UsageError, match="'model-cached'"):
        capture(tmp_path, "model/cached", step)
    with pytest.raises(UsageError, match="0 steps"):
        capture(tmp_path, "none", step, steps=0)


def test_any_text_makes_a_session_name():
    assert session_name("4x128/cached/b1-p16-n20-f32") == "4x128-cached-b1-p16-n20-f32"
    assert session_name("../..") == "session"


def test_a_file_that_is_no_profile_is_an_error_with_its_name(tmp_path):
    (tmp_path / "broken.xplane.pb").write_bytes(np.full(50, 255, np.uint8).tobytes())
    with pytest.raises(RecordError, match="broken"):
        xplane.read(tmp_path / "broken.xplane.pb", STEP_NAME)
