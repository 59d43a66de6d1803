"""Runs are put into a store and come back whole, whatever the place and whatever they are called."""

import dataclasses
import json

import pytest

from qwenperf.errors import NothingMeasuredError, RecordError, StoreError, UnknownNameError
from qwenperf.schema.records import RunRecord, metric
from qwenperf.store.base import Added
from qwenperf.store.directory import open_store


def test_adding_is_idempotent_by_content(url, made, tmp_path):
    """The same run is there once and gets files that it lacks; another run of its id changes nothing."""
    store = open_store(url)
    run = made.run_of(0)
    trace = tmp_path / "trace"
    trace.write_bytes(b"x")
    assert store.add(made.source_of(run)) is Added.ADDED
    assert store.add(made.source_of(run)) is Added.ALREADY
    assert store.add(made.source_of(run, {"plugins/profile/0/t.pb": trace})) is Added.COMPLETED
    assert store.add(made.source_of(run, {"plugins/profile/0/t.pb": trace})) is Added.ALREADY
    written = dataclasses.replace(made.source_of(run), data=json.dumps(json.loads(made.source_of(run).data)).encode())
    assert store.add(written) is Added.ALREADY
    with pytest.raises(StoreError, match="another run with the id 'run-0000'"):
        store.add(made.source_of(made.run_of(0, value=5.0)))
    assert made.values(store.series(made.CASE, "tpot_s")) == [0.01]


def test_a_run_is_read_back_whole(url, made):
    """``get`` returns what was added, evidence and all; an unknown one offers the nearest."""
    store = made.filled(url, [made.run_of(0), made.run_of(1)])
    assert store.get("run-0001") == made.run_of(1)
    with pytest.raises(UnknownNameError, match=r"unknown run 'run-0002'.*Did you mean 'run-0001'"):
        store.get("run-0002")


def test_unknown_names_offer_the_nearest(made, tmp_path):
    """A case, a metric, and a store in which nothing is."""
    store = made.filled(str(tmp_path / "store"), [made.run_of(0)])
    with pytest.raises(UnknownNameError, match=r"unknown case '4x128/cached/b2'.*Did you mean '4x128/cached/b1'"):
        store.series("4x128/cached/b2", "tpot_s")
    with pytest.raises(UnknownNameError, match=r"unknown metric of 4x128/cached/b1 'tpot'.*Did you mean 'tpot_s'"):
        store.series(made.CASE, "tpot")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingMeasuredError, match="has no measured case"):
        open_store(str(tmp_path / "empty")).series(made.CASE, "tpot_s")
    with pytest.raises(StoreError, match=r"there is no .*nowhere.*qwenperf store add"):
        open_store(str(tmp_path / "nowhere")).runs()


def test_a_run_without_a_time_is_refused_before_anything_is_written(url, made):
    """It has no place in a history."""
    store = open_store(url)
    for run in (made.run_of(0, created_at="today"), made.run_of(0, commit={"sha": "a", "committed_at": 7})):
        with pytest.raises(RecordError, match=r"created_at is 'today'|commit.committed_at is 7, which is not text"):
            store.add(made.source_of(run))
    with pytest.raises(StoreError, match="there is no"):
        store.runs()


HOSTILE = [
    "a/b",
    "../../up",
    "/root",
    "..",
    ".hidden",
    "store.toml",
    "x" * 300,
    "x" * 301,
    "é",
    "a b",
    "a\nb",
    "-rf",
    "",
]


def test_ids_are_names_of_anything_and_leave_no_store(url, made, tmp_path):
    """Ids come from other tools; each is a run of its own, found by its own name."""
    store = made.filled(url, [made.run_of(place, id=name) for place, name in enumerate(HOSTILE)])
    assert [run.run for run in store.runs()] == HOSTILE
    assert [store.get(name).id for name in HOSTILE] == HOSTILE
    assert not {path.name for path in tmp_path.iterdir()} - {"store", "cache"}
    assert all(len(run.folder) < 140 and "/" not in run.folder for run in store.runs())


def test_notes_lie_beside_the_runs(url):
    """What others keep in a store is whole or absent, and takes no run's name."""
    store = open_store(url)
    store.write_note("regressions.json", b"[1]")
    store.write_note("regressions.json", b"[2]")
    assert (store.read_note("regressions.json"), store.read_note("none.json")) == (b"[2]", None)
    assert list(store.runs()) == []
    with pytest.raises(StoreError, match="could be a run's folder"):
        store.write_note("run-0000", b"")


def test_a_run_of_nothing_is_a_run(url, made):
    """A record without cases and environment is kept, and has no points."""
    bare = RunRecord(id="bare", created_at="2026-01-01T00:00:00Z", suite="none", environment={})
    store = made.filled(url, [bare, made.run_of(0, metrics={"compile_s": metric("compile_s", 1.0)})])
    first = store.runs()[0]
    assert (first.run, first.environment, first.environment_class) == ("bare", "", "")


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_in_utc_has_is_refused(made, tmp_path, when):
    """It would break every order and window that it is in."""
    with pytest.raises(RecordError, match="which is no time"):
        open_store(str(tmp_path / "s")).add(made.source_of(made.run_of(0, created_at=when)))
