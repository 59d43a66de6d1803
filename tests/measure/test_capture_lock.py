"""One capture at a time on a machine; whoever waits is told for whom, and a dead owner holds nothing."""

import os
import signal
import subprocess
import sys

import pytest

from qwenperf.measure.capture_lock import CaptureBusyError, one_at_a_time

HOLD = """
import sys, time
from pathlib import Path
from qwenperf.measure.capture_lock import one_at_a_time
with one_at_a_time("session there", 0, folder=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_owner_is_named_to_who_waits_in_vain(owner, tmp_path):
    waited = []
    times = iter(range(10))
    with (
        pytest.raises(CaptureBusyError, match=f"process {owner.pid}, session there"),
        one_at_a_time("mine", 3, folder=tmp_path, now=lambda: next(times), sleep=waited.append),
    ):
        pytest.fail("two captures at once")
    assert len(waited) == 2


def test_the_lock_of_a_killed_process_is_free(owner, tmp_path):
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    with one_at_a_time("mine", 0, folder=tmp_path):
        pass


def test_waiting_ends_when_the_owner_does(owner, tmp_path):
    def end(_):
        owner.kill()
        owner.wait()

    with one_at_a_time("mine", 30, folder=tmp_path, sleep=end):
        assert b"mine" in (tmp_path / "qwenperf-capture.lock").read_bytes()


def test_captures_follow_each_other_in_one_process(tmp_path):
    for _ in range(2):
        with one_at_a_time("mine", 0, folder=tmp_path):
            pass


def test_a_folder_that_takes_no_lock_stops_no_capture(tmp_path):
    with one_at_a_time("mine", 0, folder=tmp_path / "absent"):
        pass


def test_a_link_in_the_lock_s_place_is_not_followed(tmp_path):
    """Anybody may put one into a shared folder."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "qwenperf-capture.lock").symlink_to(tmp_path / "precious")
    with one_at_a_time("mine", 0, folder=tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "kept"
