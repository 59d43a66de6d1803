"""Whose capture a hidden folder is: that of a live process, or left by one that is no more."""

import os
import subprocess
import sys

import pytest

from qwenperf.measure.capture_folder import is_under_way, leftovers, under_way, workplace

RUN = "20261127T220537Z-3fa9c1"
DEAD = 999_999_999


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
    folders = [tmp_path / RUN / f".capture-{999_999_999 - index}-case" for index in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
    os.utime(folders[0], (1, 1))
    with workplace(tmp_path / "run", "case"):
        assert [folder.exists() for folder in folders] == [False, True]


def test_nothing_of_anybody_else_goes_with_a_capture(tmp_path):
    """Whatever it is called, however old it is, and wherever a link leads."""
    out, outside = tmp_path / "out", tmp_path / "outside"
    precious = [
        out / "other" / f".capture-{DEAD}-pictures",
        out / RUN / ".capture-notes",
        out / "mine" / ".capture-notes",
        outside / f".capture-{DEAD}-pictures",
    ]
    for folder in precious:
        folder.mkdir(parents=True)
        os.utime(folder, (1, 1))
    (out / "20261127T220537Z-3fa9c2").symlink_to(outside)
    (out / "mine" / f".capture-{DEAD}-linked").symlink_to(outside)
    with workplace(out / "mine", "case"):
        pass
    assert [folder.is_dir() for folder in precious] == [True] * len(precious)
    assert leftovers(out / "mine") == leftovers(out / RUN) == []


def test_a_folder_is_under_way_while_its_process_marks_it(tmp_path):
    """A kill leaves a mark that tells nothing; of another machine's process it is believed for a day."""
    assert is_under_way(tmp_path) is None
    with under_way(tmp_path):
        assert is_under_way(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (own,) = marks_of_this_machine(tmp_path)
    (tmp_path / own.replace(str(os.getpid()), str(DEAD))).touch()
    assert is_under_way(tmp_path) is False
    elsewhere = tmp_path / ".under-way-1@elsewhere"
    elsewhere.touch()
    assert is_under_way(tmp_path)
    os.utime(elsewhere, (1, 1))
    assert is_under_way(tmp_path) is False


def marks_of_this_machine(folder):
    with under_way(folder):
        return [path.name for path in folder.iterdir()]
