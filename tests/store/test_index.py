"""The index can be thrown away: whatever becomes of it, the answers are those of the runs."""

import contextlib
import sqlite3
import threading

import pytest

from qwenperf.errors import StoreError, UnknownNameError
from qwenperf.store import tables
from qwenperf.store.base import Window
from qwenperf.store.directory import open_store
from qwenperf.store.index_file import index_file


@pytest.fixture
def store_url(made, tmp_path):
    """A store of five runs that has been asked once."""
    for day in range(5):
        made.write_run(tmp_path / "store", made.run_of(day, value=1.0 + day))
    assert len(open_store(str(tmp_path / "store")).runs()) == 5
    return str(tmp_path / "store")


def file_of(url):
    return index_file(open_store(url).place.key)


def answer(url, made):
    store = open_store(url)
    series = store.series(made.CASE, "tpot_s", Window(last=3))
    return [point.value for point in series.points], store.counts(), store.problems()


ANSWER = ([3.0, 4.0, 5.0], {"runs": 5, "series": 4, "points": 20}, [])


def other_version(file):
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE points")
    connection.execute('CREATE TABLE "po ""ints" (x)')
    connection.execute("ALTER TABLE runs RENAME COLUMN name TO other")
    connection.execute(f"PRAGMA user_version = {tables.VERSION - 1}")
    connection.commit()
    connection.close()


def cut(file):
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


SPOILED = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "no index": lambda file: file.write_bytes(b"SQLite or not, this is none of ours. " * 100),
    "another version": other_version,
}


@pytest.mark.parametrize("how", SPOILED)
def test_an_index_that_is_none_is_made_anew(made, store_url, how):
    """A file that is gone, empty, no index, or of another version of the tables is replaced and filled again."""
    file = file_of(store_url)
    assert file.is_file()
    SPOILED[how](file)
    assert answer(store_url, made) == ANSWER
    assert file_of(store_url).stat().st_size > 10_000


def test_an_index_that_is_broken_inside_says_what_to_do(made, store_url):
    """Damage that only a question finds is one clear error."""
    file = file_of(store_url)
    cut(file)
    try:
        seen = answer(store_url, made)
    except StoreError as error:
        assert str(file) in str(error)  # noqa: PT017  (either is right)
        assert "may be deleted at any time" in str(error)  # noqa: PT017
    else:
        assert seen == ANSWER
    assert open_store(store_url).reindex() == ANSWER[1]
    assert answer(store_url, made) == ANSWER


def test_an_index_that_somebody_holds_is_not_thrown_away(made, tmp_path, monkeypatch):
    """Whoever cannot wait any longer works in memory."""
    made.write_run(tmp_path / "store", made.run_of(0))
    monkeypatch.setattr("qwenperf.store.index_file._WAIT_S", 0.05)
    file = file_of(str(tmp_path / "store"))
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("CREATE TABLE theirs (x)")
    assert len(open_store(str(tmp_path / "store")).runs()) == 1
    holder.execute("COMMIT")
    assert holder.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    holder.close()
    with contextlib.closing(sqlite3.connect(file)) as again:
        assert again.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_two_versions_do_not_replace_each_other(store_url):
    """The version is in the name, so that two versions of qwenperf on one machine do not work against each other."""
    assert f".v{tables.VERSION}." in file_of(store_url).name


def test_reindexing_reads_every_run_again(made, store_url):
    """Counts are those of the runs."""
    assert open_store(store_url).reindex() == ANSWER[1]
    assert answer(store_url, made) == ANSWER


def test_only_what_is_new_is_read(made, store_url, tmp_path):
    """A second look at a store opens no record that it knows."""
    made.write_run(tmp_path / "store", made.run_of(5))
    store = open_store(store_url)
    read = []
    records = store.place.records
    store.place.records = lambda folders: read.extend(folders) or records(folders)
    store.runs()
    assert read == ["run-0005"]


def test_many_who_look_at_once_see_the_same(made, tmp_path):
    """Several processes may fill one index."""
    for day in range(100):
        made.write_run(tmp_path / "store", made.run_of(day, value=1.0 + day))
    seen, failed = [], []

    def look():
        try:
            seen.append(answer(str(tmp_path / "store"), made))
        except Exception as error:  # noqa: BLE001  (told below)
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert seen == [([98.0, 99.0, 100.0], {"runs": 100, "series": 4, "points": 400}, [])] * 4


def test_a_window_is_one_stretch_of_one_tree(store_url):
    """The newest points of a series are read without sorting or scanning the others."""
    connection = sqlite3.connect(file_of(store_url))
    query = tables.POINTS.format(series="1", conditions="")
    plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", (500,)))
    connection.close()
    assert "SEARCH points USING PRIMARY KEY (series=?)" in plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan
    assert "SCAN" not in plan


def test_forgetting_a_run_looks_at_no_other(store_url):
    """A run that changes costs what it has, however large the store is."""
    connection = sqlite3.connect(file_of(store_url))
    plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {tables.DROP_POINTS}", (1, 1.0, 1.0)))
    connection.close()
    assert "SEARCH points USING PRIMARY KEY (series=? AND at=? AND measured=? AND run=?)" in plan


def test_what_is_not_utf8_is_the_name_of_nothing(made, store_url):
    """Such words come from a command line; an index has none."""
    store = open_store(store_url)
    with pytest.raises(UnknownNameError, match="unknown metric"):
        store.series(made.CASE, "tpot\udcff")
    with pytest.raises(UnknownNameError, match="unknown run"):
        store.get("\udcff")


def test_cases_are_looked_up_once_until_a_run_comes(made, store_url):
    """Of a store of thousands, asked for each of them, this took minutes."""
    store = open_store(store_url)
    known = store.cases()
    assert store.cases() is known
    store.add(made.source_of(made.run_of(9, case="new")))
    assert "new" in store.cases()
