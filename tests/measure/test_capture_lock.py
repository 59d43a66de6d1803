"""One capture at a time on a machine; whoever waits is told for whom, and a dead owner holds nothing."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

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


READER = f"""
import os
import qwenperf.measure.capture_lock
if os.geteuid() == 0:
    os.seteuid(65534)
{HOLD}"""


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


def test_the_lock_is_for_every_user_whatever_this_one_keeps_from_others(tmp_path):
    before = os.umask(0o077)
    try:
        with one_at_a_time("mine", 0, folder=tmp_path):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "qwenperf-capture.lock").stat().st_mode & 0o777 == 0o666


def test_a_user_who_may_only_read_the_lock_holds_the_same_one():
    """A file of its own would let two captures run at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "qwenperf-capture.lock").touch()
        (folder / "qwenperf-capture.lock").chmod(0o444)
        with subprocess.Popen([sys.executable, "-c", READER, folder], stdout=subprocess.PIPE) as reader:
            assert reader.stdout.readline() == b"held\n"
            with pytest.raises(CaptureBusyError, match="by an unknown process"), one_at_a_time("x", 0, folder=folder):
                pytest.fail("two captures at once")
            reader.kill()
