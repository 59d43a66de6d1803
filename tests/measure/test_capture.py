"""Profiles are saved where viewers look, whole or not at all, and checked."""

import os
import subprocess
import sys
import threading
import warnings

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

from qwenperf.errors import OutputError, UsageError
from qwenperf.measure.capture import STEP_NAME, capture
from qwenperf.measure.capture_check import BadCaptureError, checked
from qwenperf.measure.compiles import CompileLog
from qwenperf.traces import xplane


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


def test_our_reader_sees_what_jaxs_own_sees(saved):
    """The same operations, as often, for as long; and our steps."""
    profile = xplane.read(saved[1][1].path, STEP_NAME)
    seen, steps = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the types of JAX's reader have no module
        for plane in ProfileData.from_file(str(saved[1][1].path)).planes:
            for line in plane.lines:
                for event in line.events:
                    steps += event.name == STEP_NAME
                    name = next((value for key, value in event.stats if key == "hlo_op"), None)
                    if name and event.duration_ns > 0:
                        seen.setdefault(name, []).append(event.duration_ns)
    ours = {}
    for track in profile.tracks:
        for start, end, key in zip(track.start_ps, track.end_ps, track.key, strict=True):
            ours.setdefault(profile.keys[key].name, []).append((end - start) / 1000)
    assert len(profile.steps) == steps == 3
    assert ours.keys() == seen.keys()
    assert all(sorted(ours[name]) == pytest.approx(sorted(seen[name])) for name in seen)


def test_operations_are_joined_with_the_program_that_ran(saved):
    """Source line, shape and cost come from the program that the profile holds."""
    rows = saved[1][0].summary["operations"]
    product = next(row for row in rows if row["category"] == "matmul")
    assert product["flops"] / product["count"] == 2 * 64**3
    assert product["bytes"] / product["count"] == 3 * 64 * 64 * 4
    assert product["shape"] == "f32[64,64]"
    assert any("test_capture.py:" in row["source"] for row in rows)
    assert all(row["program"].startswith("jit_") for row in rows)


def test_a_capture_compiles_nothing(step, tmp_path):
    """A profiler that compiled would change what is measured after it."""
    with CompileLog() as log, log.phase("steady"):
        assert capture(tmp_path, "quiet", step, steps=2).path is not None
    assert log.count("steady") == 0


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


def test_a_profiler_that_fails_after_an_interrupt_hides_nothing(step, tmp_path, monkeypatch):
    """The interrupt ends the run; a profiler that complains then would be a finding."""
    stop = jax.profiler.stop_trace

    def failing():
        stop()
        raise RuntimeError("no space")

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jax.profiler, "stop_trace", failing)
        with pytest.raises(KeyboardInterrupt):
            capture(tmp_path, "cut", interrupted)
        with pytest.raises(RuntimeError, match="no space"):
            capture(tmp_path, "whole", step, steps=1)


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
    for name in ("model/cached", "../..", "-x", "x.", ""):
        with pytest.raises(UsageError, match="cannot name a trace session"):
            capture(tmp_path, name, step)
    with pytest.raises(UsageError, match="0 steps"):
        capture(tmp_path, "none", step, steps=0)


def test_python_s_own_calls_are_recorded_only_when_asked_for(step, saved, tmp_path):
    """They name functions and lines, and slow the steps down."""

    def own_function():
        return step()

    def host_names(path):
        profile = xplane.read(path, STEP_NAME)
        return {profile.keys[key].name for track in profile.host for key in track.key}

    asked = capture(tmp_path, "python", own_function, steps=2, python=True)
    assert any("own_function" in name for name in host_names(asked.path))
    assert not any("test_capture" in name for name in host_names(saved[1][0].path))


def test_a_second_attempt_at_a_profile_that_is_too_large_takes_fewer_steps(step, tmp_path):
    """Less room than all the steps need is enough for some of them, perhaps."""
    whole = capture(tmp_path / "whole", "whole", step, steps=200)
    limit = int(whole.path.stat().st_size * 0.7)
    whole.path.unlink()
    calls = []
    result = capture(tmp_path, "fits", lambda: calls.append(step()), steps=200, max_bytes=limit)
    assert len(calls) > 200
    assert result.path is None or result.summary["steps"] < 200
    kept = [path for path in left(tmp_path) if not path.startswith("whole")]
    assert kept == ([] if result.path is None else [str(result.path.relative_to(tmp_path))])


def test_a_profiler_that_does_not_stop_is_left_behind(step, tmp_path, monkeypatch):
    """Measuring goes on; the finding says what happened."""
    release, stop = threading.Event(), jax.profiler.stop_trace
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: (release.wait(30), stop()))
    result = capture(tmp_path, "stuck", step, steps=1, stop_s=0.05)
    release.set()
    assert (result.path, result.findings[0].code) == (None, "trace-stuck")
    for thread in threading.enumerate():
        if thread.name == "qwenperf-stop-trace":
            thread.join()


def test_a_profile_without_operations_in_its_last_steps_was_cut(saved, tmp_path):
    """As when the profiler's buffers were full."""
    file = saved[1][0].path
    with pytest.raises(BadCaptureError, match="shows 3 of 5 steps"):
        checked(file.parent, STEP_NAME, 5, max_bytes=10**9, tokens_per_step=1)
    (tmp_path / "cut.xplane.pb").write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(BadCaptureError) as caught:
        checked(tmp_path, STEP_NAME, 3, max_bytes=10**9, tokens_per_step=1)
    assert (caught.value.code, caught.value.retry_steps) == ("trace-unreadable", 3)


KILLED = """
import os, signal, sys
from pathlib import Path
import jax, jax.numpy as jnp
from qwenperf.measure.capture import capture
step, calls = jax.jit(lambda x: x @ x), []
def die():
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(jnp.ones((8, 8)))
capture(Path(sys.argv[1]), "killed", die)
"""


def test_a_process_that_is_killed_while_it_captures_leaves_no_trace_and_no_lock(step, tmp_path):
    """What it leaves is hidden, and the next capture removes it."""
    run = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, run], check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == -9
    (hidden,) = run.iterdir()
    assert hidden.name.startswith(".capture-")
    assert capture(run, "next", step, steps=1).path is not None
    assert [path.name for path in run.iterdir()] == ["plugins"]
    assert [path.name for path in (run / "plugins" / "profile").iterdir()] == ["next"]
