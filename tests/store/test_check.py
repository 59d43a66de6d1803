"""Looking a store over finds what a history cannot show."""

import os
import sqlite3

from qwenperf.store.check import check_store
from qwenperf.store.directory import open_store
from qwenperf.store.index_file import index_file


def test_a_good_store_has_no_problems(made, tmp_path):
    """Every run is read whole and is what the index says."""
    for day in range(3):
        made.write_run(tmp_path, made.run_of(day))
    assert check_store(open_store(str(tmp_path))) == ([], 3)


def test_evidence_that_is_broken_is_found(made, tmp_path):
    """A history does not read it; looking a store over does."""
    place = made.write_run(tmp_path, made.run_of(0))
    text = (place / "run.json").read_text()
    (place / "run.json").write_text(text.replace('"compiles": []', '"compiles": 7'))
    problems, runs = check_store(open_store(str(tmp_path)))
    assert runs == 1
    assert [(one.folder, "compiles is 7" in one.message) for one in problems] == [("run-0000", True)]


def test_an_index_that_says_otherwise_is_found(made, tmp_path):
    """Made anew, it says the same."""
    place = made.write_run(tmp_path, made.run_of(0))
    store = open_store(str(tmp_path))
    store.runs()
    connection = sqlite3.connect(index_file(store.place.key))
    connection.execute("DELETE FROM points")
    connection.commit()
    connection.close()
    problems, _ = check_store(open_store(str(tmp_path)))
    assert [("4 points and the index 0" in one.message) for one in problems] == [True]
    store.reindex()
    assert check_store(open_store(str(tmp_path))) == ([], 1)
    assert place.is_dir()


def test_a_folder_that_was_renamed_is_named(made, tmp_path):
    """Added again, its run would be there twice."""
    made.write_run(tmp_path, made.run_of(0)).rename(tmp_path / "renamed")
    ((folder, message),) = [(one.folder, one.message) for one in check_store(open_store(str(tmp_path)))[0]]
    assert folder == "renamed"
    assert "holds run run-0000" in message


def test_a_record_that_was_changed_behind_the_store_is_found(made, tmp_path):
    """Of the same size and time, it looks unchanged; reading it tells."""
    file = made.write_run(tmp_path, made.run_of(0)) / "run.json"
    open_store(str(tmp_path)).runs()
    before = file.stat()
    with file.open("r+") as opened:
        text = opened.read().replace('"suite": "smoke"', '"suite": "smirk"')
        opened.seek(0)
        opened.write(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    ((folder, message),) = [(one.folder, one.message) for one in check_store(open_store(str(tmp_path)))[0]]
    assert folder == "run-0000"
    assert "the index says otherwise" in message
