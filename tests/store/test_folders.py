"""Folders of a store as they lie: half written, broken, copied, changed, and none at all."""

import os

import pytest

from qwenperf.errors import ConfigError, StoreError
from qwenperf.schema.codec import dumps
from qwenperf.store.directory import open_store

BROKEN = {
    "cut": (lambda text: text[: len(text) // 2], "is not JSON.*Was it cut short"),
    "nan": (lambda text: text.replace('"value": 0.01', '"value": NaN'), "finite numbers only"),
    "huge": (lambda text: text.replace('"value": 0.01', '"value": 1e999'), "finite numbers only"),
    "digits": (lambda text: text.replace('"value": 0.01', f'"value": {"9" * 5000}'), "is not JSON"),
    "newer": (lambda text: text.replace("qwenperf.run.v1", "qwenperf.run.v7"), "A newer qwenperf wrote it"),
    "time": (lambda text: text.replace("2026-01-01T12", "yesterday"), "is 'yesterday.*which is no time"),
    "half": (lambda text: text.replace('"tpot_s"', '"a\\ud800b"'), "half a character"),
    "list": (lambda _: "[]", "schema is missing"),
    "empty": (lambda _: "", "is not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_cannot_be_read_is_named_and_harms_no_other(made, tmp_path, name):
    """Whatever lies in a store, the rest of it is a history."""
    change, message = BROKEN[name]
    made.write_run(tmp_path / "store", made.run_of(1))
    place = made.write_run(tmp_path / "store", made.run_of(0))
    (place / "run.json").write_text(change((place / "run.json").read_text()))
    store = open_store(str(tmp_path / "store"))
    assert [point.run for point in store.series(made.CASE, "tpot_s").points] == ["run-0001"]
    (problem,) = store.problems()
    assert problem.folder == "run-0000"
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(problem.message)


def test_a_folder_of_runs_is_a_store_as_it_is(made, tmp_path):
    """What ``qwenperf run`` leaves needs no copy; comparisons and files beside the runs do not matter."""
    for day in range(3):
        made.write_run(tmp_path / "profiles", made.run_of(day, value=1.0 + day))
    (tmp_path / "profiles" / "compared").mkdir()
    (tmp_path / "profiles" / "compared" / "comparison.json").write_text("{}")
    (tmp_path / "profiles" / "README.md").write_text("runs")
    (tmp_path / "profiles" / ".incoming-x").mkdir()
    store = open_store(str(tmp_path / "profiles"))
    assert made.values(store.series(made.CASE, "tpot_s")) == [1.0, 2.0, 3.0]
    assert store.problems() == []


def test_what_changes_in_a_folder_is_noticed(made, tmp_path):
    """A run that goes on, one that is removed, and one that was broken and is mended."""
    out = tmp_path / "profiles"
    first, second = (made.write_run(out, made.run_of(day)) for day in range(2))
    whole = (first / "run.json").read_text()
    (first / "run.json").write_text(whole[:50])
    assert [run.run for run in open_store(str(out)).runs()] == ["run-0001"]
    (first / "run.json").write_text(whole.replace('"value": 0.01', '"value": 0.5'))
    assert made.values(open_store(str(out)).series(made.CASE, "tpot_s")) == [0.5, 0.01]
    (second / "run.json").unlink()
    store = open_store(str(out))
    assert made.values(store.series(made.CASE, "tpot_s")) == [0.5]
    assert store.counts() == {"runs": 1, "series": 4, "points": 4}


def test_a_copied_folder_is_one_run(made, tmp_path):
    """The same run in two folders counts once, and the copy is named; it takes over where the first goes."""
    out = tmp_path / "profiles"
    place = made.write_run(out, made.run_of(0))
    copy = out / "zz-copy"
    copy.mkdir()
    (copy / "run.json").write_bytes((place / "run.json").read_bytes())
    store = open_store(str(out))
    assert len(store.series(made.CASE, "tpot_s").points) == 1
    assert [(one.folder, one.message) for one in store.problems()] == [("zz-copy", "is a copy of run-0000")]
    (place / "run.json").unlink()
    assert [run.folder for run in open_store(str(out)).runs()] == ["zz-copy"]


def test_a_copy_takes_over_where_the_first_becomes_another_run(made, tmp_path):
    """It was overwritten in its place: what the copy holds is in no other folder by now."""
    out = tmp_path / "out"
    place = made.write_run(out, made.run_of(0))
    copy = out / "zz-copy"
    copy.mkdir()
    (copy / "run.json").write_bytes((place / "run.json").read_bytes())
    assert len(open_store(str(out)).runs()) == 1
    (place / "run.json").write_text(dumps(made.run_of(1, value=7.0)))
    store = open_store(str(out))
    assert {run.run: run.folder for run in store.runs()} == {"run-0000": "zz-copy", "run-0001": "run-0000"}
    assert store.problems() == []


def test_a_run_that_another_process_brings_while_folders_are_listed_stays_in_the_index(made, tmp_path, monkeypatch):
    """Both share one index: what one of them did not see is not forgotten for the other."""
    first, second = (made.filled(str(tmp_path / "store"), runs) for runs in ([made.run_of(0)], [made.run_of(1)]))
    listing = first.place.listing

    def slowly():
        seen = listing()
        second.add(made.source_of(made.run_of(2)))
        assert len(second.runs()) == 3
        return seen

    assert len(second.runs()) == 2
    monkeypatch.setattr(first.place, "listing", slowly)
    first.refresh()
    assert [run.run for run in second.runs()] == ["run-0000", "run-0001", "run-0002"]


def test_one_folder_that_cannot_be_used_leaves_the_others(made, tmp_path):
    """Whatever its name, its size and its metrics: it is named, and the history is that of the rest."""
    root = tmp_path / "store"
    store = made.filled(str(root), [made.run_of(day) for day in range(4)])
    (root / "run-0001").rename(root / "r\udcff")
    with (root / "run-0002" / "run.json").open("r+b") as file:
        file.truncate(1 << 40)
    (root / "run-0003" / "run.json").unlink()
    (root / "run-0003" / "run.json").symlink_to("run.json")
    store.refresh()
    assert [run.run for run in store.runs()] == ["run-0000"]
    told = {one.folder: one.message for one in store.problems()}
    assert told == {
        "r\\udcff": "the name of this folder is not UTF-8: rename it",
        "run-0002": "run.json has 1.10 TB, more than any record",
        "run-0003": "run.json is not there, or leads nowhere",
    }


def test_a_store_that_is_none_is_refused(tmp_path):
    """One slash too few is no folder; no home, no name, no file."""
    os.mkfifo(tmp_path / "store.toml")
    for url, told in (
        ("s3:/b/x", "Write s3://"), ("~nosuch-user/x", "cannot find"), ("s\udcff", "not UTF-8"),
        (str(tmp_path), "no regular file"),
    ):  # fmt: skip
        with pytest.raises(StoreError, match=told):
            open_store(url)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "store.toml").write_text("a=" + "[" * 3000)
    with pytest.raises(ConfigError, match="is not TOML"):
        open_store(str(tmp_path / "deep"))


def test_an_index_that_cannot_be_written_leaves_the_answers(made, tmp_path):
    """A full disk, for one, while it is filled: what may be deleted at any time may also be missing."""
    store = made.filled(str(tmp_path / "store"), [made.run_of(0), made.run_of(1)])
    assert len(store.runs()) == 2
    full = open_store(str(tmp_path / "store"))
    full._index._connection.execute("PRAGMA max_page_count = 1")
    store.add(made.source_of(made.run_of(2, metrics={f"m{n}": made.foreign(1.0) for n in range(2000)})))
    assert len(full.runs()) == 3
    assert len(full.cases()[made.CASE]) == 2002
