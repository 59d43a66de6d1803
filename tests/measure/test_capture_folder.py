"""Whose capture a hidden folder is: that of a live process, or left by one that is no more."""

import os
import subprocess
import sys

import pytest

from qwenperf.measure.capture_folder import leftovers, workplace


def test_a_folder_is_there_while_it_is_written_and_gone_afterwards(tmp_path):
    with workplace(tmp_path / "run", "case") as work:
        assert work.is_dir()
        assert work.name.startswith(f".capture-{os.getpid()}@")
        assert leftovers(tmp_path / "run") == []
    assert list((tmp_path / "run").iterdir()) == []


def test_a_process_that_ended_without_anybody_noticing_is_no_more(tmp_path):
    """A zombie still has its number."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / f".capture-{process.pid}-case").mkdir()
        assert [path.name for path in leftovers(tmp_path)] == [f".capture-{process.pid}-case"]


@pytest.mark.parametrize(("age_s", "left"), [(0, []), (7200, [".capture-1@elsewhere-case"])])
def test_on_another_machine_only_what_is_old_is_left(age_s, left, tmp_path):
    """Its processes cannot be asked."""
    folder = tmp_path / ".capture-1@elsewhere-case"
    folder.mkdir()
    seen = folder.stat().st_mtime - age_s
    os.utime(folder, (seen, seen))
    assert [path.name for path in leftovers(tmp_path)] == left


def test_an_old_leftover_of_the_run_beside_goes_with_the_next_capture(tmp_path):
    folders = [tmp_path / "beside" / f".capture-{999_999_999 - index}-case" for index in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
    os.utime(folders[0], (1, 1))
    with workplace(tmp_path / "run", "case"):
        assert [folder.exists() for folder in folders] == [False, True]
