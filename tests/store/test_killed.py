"""Whatever happens to a writer, a store stays readable and shows no half of a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qwenperf.errors import StoreError
from qwenperf.store.base import Added
from qwenperf.store.directory import open_store

SCRIPT = Path(__file__).with_name("killed.py")


def told(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_writer_that_is_killed_at_any_step_leaves_all_or_nothing(made, tmp_path):
    """The run of before is always there; the new one is there with all its files, or not at all."""
    store = tmp_path / "store"
    made.write_run(store, made.run_of(0))
    steps = told("every-step", store)
    assert [one["ended"] for one in steps] == [9] * (len(steps) - 1) + [0]
    assert len(steps) > 6
    for one in steps:
        there = "run-0001" in one["runs"]
        assert one["runs"] == ["run-0000"] + ["run-0001"] * there, one
        assert (one["points"], one["whole"], one["bad"]) == (1 + there, there, 0), one
    assert steps[-1]["runs"] == ["run-0000", "run-0001"]
    assert not steps[len(steps) // 2]["whole"]


def test_what_killed_writers_left_is_named_and_removed(made, tmp_path):
    """It is no run, costs nothing but room, and goes when it is asked to."""
    store = tmp_path / "store"
    made.write_run(store, made.run_of(0))
    told("every-step", store)
    left = open_store(str(store)).place.unfinished()
    assert left
    for name in left:
        open_store(str(store)).place.remove_unfinished(name)
    assert sorted(path.name for path in store.iterdir()) == ["run-0000", "run-0001"]


def test_writers_at_once_add_each_run_once(made, tmp_path):
    """Of all who add a run one does; the others see that it is there, and nobody fails."""
    store = tmp_path / "store"
    made.write_run(store, made.run_of(10))
    seen = told("together", store)
    assert seen["codes"] == [0] * len(seen["codes"])
    assert seen["added"] == [1] * len(seen["added"])
    assert len(open_store(str(store)).series(made.CASE, "tpot_s").points) == len(seen["added"]) + 1
    assert open_store(str(store)).place.unfinished() == []


def test_a_disk_that_is_full_is_one_clear_error(made, tmp_path):
    """Nothing is left of what did not fit, and what was there is there."""
    store = tmp_path / "store"
    place = made.write_run(store, made.run_of(0))
    (place / "large").write_bytes(b"x" * 50_000)
    assert "cannot write to" in told("full", store)
    assert open_store(str(store)).place.unfinished() == []
    assert [run.run for run in open_store(str(store)).runs()] == ["run-0000"]


@pytest.mark.parametrize("name", ["file/store", "file"])
def test_a_place_that_cannot_be_a_folder_is_one_clear_error(made, tmp_path, name):
    """To write to it, and to read it."""
    (tmp_path / "file").write_text("")
    store = open_store(str(tmp_path / name))
    with pytest.raises(StoreError, match=r"cannot write to .*file"):
        store.add(made.source_of(made.run_of(0)))
    with pytest.raises(StoreError, match=r"cannot list the store .*file"):
        store.runs()


def test_a_store_that_nobody_may_write_to_is_readable(made, tmp_path, monkeypatch):
    """The index needs no room beside the runs, and none at all."""
    store = tmp_path / "store"
    made.write_run(store, made.run_of(0))
    (tmp_path / "no-folder").write_text("")
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "no-folder"))
    before = sorted(path.name for path in store.rglob("*"))
    assert len(open_store(str(store)).series(made.CASE, "tpot_s").points) == 1
    assert sorted(path.name for path in store.rglob("*")) == before


def test_a_run_whose_files_cannot_all_be_copied_is_not_there(url, made, tmp_path):
    """The record comes last, wherever the store is."""
    store = open_store(url)
    store.add(made.source_of(made.run_of(0)))
    with pytest.raises(StoreError, match="cannot write to"):
        store.add(made.source_of(made.run_of(1), {"logs/a": SCRIPT, "logs/b": tmp_path / "gone"}))
    assert [run.run for run in store.runs()] == ["run-0000"]


def test_an_add_that_was_cut_off_is_done_by_the_next(made, tmp_path):
    """At a URL, where files come before the record, an add that is repeated finds its own files."""
    source = made.source_of(made.run_of(0), {"logs/a": SCRIPT})
    store = open_store(f"memory://{tmp_path.name}")
    store.place._add("run-0000", source.files)
    assert store.place.unfinished() == ["run-0000"]
    assert store.runs() == []
    assert store.add(source) is Added.ADDED
    assert (store.place.unfinished(), len(store.runs())) == ([], 1)
