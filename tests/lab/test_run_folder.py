"""A run's folder has a name of its own, and its files are whole or absent."""

import errno
import os
from datetime import UTC, datetime

import pytest

from qwenperf.errors import OutputError
from qwenperf.lab.run_folder import check_writable, create_run_folder, new_run_id, session_name, write_text

NOW = datetime(2026, 11, 27, 22, 5, 37, tzinfo=UTC)


def test_ids_of_the_same_second_differ():
    """Two runs may begin in one second."""
    assert new_run_id(NOW) != new_run_id(NOW)
    assert new_run_id(NOW).startswith("20261127T220537Z-")


def test_a_folder_is_never_used_twice(tmp_path, monkeypatch):
    """An id that is taken is not used again."""
    ids = iter(["a", "a", "b"])
    monkeypatch.setattr("qwenperf.lab.run_folder.new_run_id", lambda _: next(ids))
    assert [create_run_folder(tmp_path, NOW).id for _ in range(2)] == ["a", "b"]


def test_a_place_that_cannot_be_a_folder_is_one_clear_error(tmp_path):
    """A file in the way is named."""
    (tmp_path / "file").write_text("")
    for make in (check_writable, lambda out: create_run_folder(out, NOW)):
        with pytest.raises(OutputError, match=r"cannot write .*file/runs: .*--out"):
            make(tmp_path / "file" / "runs")


def test_a_link_to_nothing_is_no_place(tmp_path):
    """A dry run finds what a run would."""
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for make in (check_writable, lambda out: create_run_folder(out, NOW)):
        with pytest.raises(OutputError, match=r"link: .*"):
            make(tmp_path / "link")
    assert not (tmp_path / "nothing").exists()


def test_checking_leaves_nothing_behind(tmp_path):
    """A dry run does not make the folder that it checks."""
    check_writable(tmp_path / "deep" / "down")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("case_id", "name"), [("4x128/cached/b1-p16-n20-f32", "4x128__cached__b1-p16-n20-f32"), ("tiny", "tiny")]
)
def test_ordinary_cases_are_sessions_by_name(case_id, name):
    """A case is recognised in TensorBoard's list."""
    assert session_name(case_id) == name


def test_cases_that_differ_have_sessions_that_differ():
    """Whatever is in a path, no two cases share a file, and no name leaves the folder."""
    ids = [
        "a b/c",
        "a-b/c",
        "a__b",
        "a/b",
        "../../etc",
        "/home/me/model/cached/x",
        "x" * 300,
        "x" * 301,
        "é/ü",
        "..",
        ".",
    ]
    names = [session_name(case_id) for case_id in ids]
    assert len(set(names)) == len(ids)
    assert all("/" not in name and not name.startswith((".", "-")) and len(name) < 140 for name in names)


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    """A full disk is one clear error; what was there before is still whole."""
    path = tmp_path / "run.json"
    write_text(path, "old")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*run\.json: No space left on device"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
