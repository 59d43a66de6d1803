"""One measurement at a time on a machine: others wait and are told for whom, its own processes go on."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from qwenperf.errors import ConfigError, MachineBusyError
from qwenperf.measure import machine_lock, measuring_lock
from qwenperf.measure.machine_lock import MachineLock
from qwenperf.measure.measuring_lock import FOLDER, HANDED_DOWN, WAIT, is_handed_down, one_measurement

NAME = "qwenperf-measuring"
ENTER = "from qwenperf.measure.measuring_lock import one_measurement\nwith one_measurement():\n    print('in')"
FORKS = """
import os, signal, sys, time
from qwenperf.measure.measuring_lock import one_measurement
reader, writer = os.pipe()
with one_measurement():
    child = os.fork()
    if not child:
        os.write(writer, b".")
        time.sleep(60)
    os.read(reader, 1)
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A lock of its own for each test, for which nobody waits."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setenv(WAIT, "0")
    monkeypatch.delenv(HANDED_DOWN, raising=False)


def enter(*, handed_down=True, through=()):
    """Measure in a process that is started here, perhaps through others."""
    environ = {name: value for name, value in os.environ.items() if handed_down or name != HANDED_DOWN}
    words = [*through, sys.executable, "-c", ENTER]
    return subprocess.run(words, env=environ, capture_output=True, check=False, text=True)


def test_the_second_process_waits_and_is_told_for_whom(measure_apart, monkeypatch):
    monkeypatch.setenv(WAIT, "60")
    first = measure_apart()
    first.stdout.readline()
    second = measure_apart()
    told = second.stderr.readline()
    assert told.startswith(f"qwenperf: waiting, 60.0 s at most ({WAIT}), for another measurement on this machine: ")
    assert f"process {first.pid} (qwenperf compare main), since 20" in told
    assert second.poll() is None
    first.communicate("\n")
    assert second.stdout.readline().startswith(f"{second.pid}-")
    _, more = second.communicate("\n")
    assert (second.returncode, more) == (0, "")


def test_waiting_in_vain_ends_in_an_error_that_names_the_other(measured_beside):
    with pytest.raises(MachineBusyError, match=rf"process {measured_beside.pid} \(qwenperf compare main\)") as seen:
        one_measurement().__enter__()
    assert seen.value.exit_code == 4
    assert WAIT in str(seen.value)


def test_a_killed_process_holds_nothing(measured_beside):
    os.kill(measured_beside.pid, signal.SIGKILL)
    measured_beside.wait()
    with one_measurement():
        pass


def test_a_killed_process_holds_nothing_by_what_it_had_forked_off():
    """Its open file lives on in the fork."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.wait()
        try:
            os.kill(child, 0)
            with one_measurement():
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_what_a_measurement_starts_goes_on_and_nobody_else():
    with one_measurement():
        assert enter().stdout == "in\n"
        assert enter(through=("sh", "-c", '"$@"; exit $?', "sh")).stdout == "in\n"
        other = enter(handed_down=False)
        assert (other.returncode, other.stdout) == (1, "")
        assert f"MachineBusyError: another measurement runs on this machine: process {os.getpid()} (" in other.stderr
    assert enter(handed_down=False).stdout == "in\n"
    assert HANDED_DOWN not in os.environ


def test_what_a_measurement_starts_goes_on_where_the_disk_is_full(monkeypatch):
    """Nothing says then who holds the lock."""
    monkeypatch.setattr(MachineLock, "tell", lambda _self, _what: None)
    with one_measurement():
        assert enter().stdout == "in\n"


def test_a_variable_that_outlives_its_measurement_is_worth_nothing(measure_apart, monkeypatch):
    with one_measurement():
        stale = os.environ[HANDED_DOWN]
        assert is_handed_down(stale)
    assert not is_handed_down(stale)
    measure_apart().stdout.readline()
    monkeypatch.setenv(HANDED_DOWN, stale)
    with pytest.raises(MachineBusyError):
        one_measurement().__enter__()


def test_the_variable_of_a_process_that_did_not_start_this_one_is_worth_nothing(measure_apart, monkeypatch):
    """It may have come by a file, or from a shell that a measurement had started."""
    monkeypatch.setenv(HANDED_DOWN, measure_apart().stdout.readline().strip())
    with pytest.raises(MachineBusyError):
        one_measurement().__enter__()


@pytest.mark.parametrize("value", ["", "nonsense", "x-y /nowhere", "PROCESS-00 /nowhere", "PROCESS-00", "\u00b2-0 /a"])
def test_a_variable_that_says_nothing_is_worth_nothing(value):
    assert not is_handed_down(value.replace("PROCESS", str(os.getpid())))


def test_a_block_within_a_block_ends_nothing():
    with one_measurement():
        with one_measurement():
            pass
        assert "MachineBusyError" in enter(handed_down=False).stderr


def test_a_thread_of_the_measurement_goes_on():
    def measure():
        with one_measurement():
            done.append(True)

    done = []
    with one_measurement():
        thread = threading.Thread(target=measure)
        thread.start()
        thread.join()
        assert "MachineBusyError" in enter(handed_down=False).stderr
    assert done


def test_a_measurement_that_breaks_holds_nothing():
    with pytest.raises(ZeroDivisionError), one_measurement():
        1 / 0  # noqa: B018
    assert enter().stdout == "in\n"


def test_a_chosen_folder_that_takes_no_lock_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match=f"{FOLDER} is .*absent.*No such file.*Name a folder that exists"):
        one_measurement().__enter__()


def without(monkeypatch):
    """Have nothing said yet, and return what is said from now on."""
    said = []
    monkeypatch.setattr(measuring_lock, "_HOLD", measuring_lock._Hold(say=said.append))
    monkeypatch.delenv(FOLDER)
    return said


def test_where_no_lock_can_be_that_is_told_once_and_measuring_goes_on(tmp_path, monkeypatch):
    for name in (NAME, f"{NAME}-{os.getuid()}"):
        (tmp_path / f"{name}.lock").symlink_to(tmp_path / "precious")
    said = without(monkeypatch)
    monkeypatch.setattr(measuring_lock, "_EVERYWHERE", tmp_path)
    for _ in range(2):
        with one_measurement():
            pass
    assert len(said) == 1
    assert said[0].startswith("warning: nothing keeps another measurement from running beside this one")
    assert f"Set {FOLDER}" in said[0]
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("chosen", [True, False])
def test_a_system_without_locks_says_so_once_and_measures(tmp_path, monkeypatch, chosen):
    said = without(monkeypatch)
    if chosen:
        monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(machine_lock, "AVAILABLE", False)
    for _ in range(2):
        with one_measurement():
            pass
    assert len(said) == 1
    assert FOLDER not in said[0]


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_in_the_lock_s_place_empties_nothing(tmp_path, link):
    """Anybody may put one into a shared folder; this user's own file is locked then."""
    (tmp_path / "precious").write_text("kept")
    getattr(tmp_path / f"{NAME}.lock", link)(tmp_path / "precious")
    with one_measurement():
        assert (tmp_path / "precious").read_text() == "kept"
        assert f"process {os.getpid()}" in (tmp_path / f"{NAME}-{os.getuid()}.lock").read_text()


def test_the_lock_is_at_one_place_whatever_a_process_has_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert measuring_lock._folder({}) == measuring_lock._EVERYWHERE


def test_words_of_others_steer_no_terminal(tmp_path):
    """Any user may write into the file."""
    (tmp_path / f"{NAME}.lock").write_text("1-a pro\x1b[2Jcess\n1")
    lock = MachineLock.at(tmp_path, NAME)
    assert lock.told() == "1-a pro [2Jcess 1"
    lock.close()


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_a_time_to_wait_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv(WAIT, value)
    with pytest.raises(ConfigError, match=f"{WAIT} is '{value}': expected a number of seconds"):
        one_measurement().__enter__()
