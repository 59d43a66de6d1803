"""Traces on disk are listed and pruned run by run; records stay, and so does what is not ours."""

import json
import os

import pytest

from qwenperf.lab.trace_files import choose, remove, trace_bytes, traced_runs

NOW = 1_700_000_000
DEAD = 999_999_999


def make_run(out, name, *, age=0, size=1000, cases=1, declared=1, record=True):
    """A run folder as the lab leaves it, ``age`` seconds old."""
    run = out / name
    for index in range(cases):
        session = run / "plugins" / "profile" / f"case{index}"
        session.mkdir(parents=True)
        (session / "vm.xplane.pb").write_bytes(b"x" * size)
    run.mkdir(parents=True, exist_ok=True)
    if record:
        cases_told, declared_told = [{}] * cases, ["x"] * declared
        told = {"schema": "qwenperf.run.v1", "suite": "smoke", "cases": cases_told, "declared": declared_told}
        (run / "run.json").write_text(json.dumps(told))
        os.utime(run / "run.json", (NOW - age, NOW - age))
    return run


@pytest.fixture
def out(tmp_path):
    """Three runs, the newest named last."""
    for index, age in enumerate((300, 200, 100)):
        make_run(tmp_path, f"run{index}", age=age)
    return tmp_path


def names(runs):
    return [os.path.basename(run.path) for run in runs]  # noqa: PTH119


def test_runs_are_listed_newest_first_with_their_size(out):
    runs = traced_runs(out)
    assert names(runs) == ["run2", "run1", "run0"]
    assert [(run.suite, run.sessions, run.bytes, run.problem) for run in runs] == [("smoke", ("case0",), 1000, "")] * 3
    assert trace_bytes(out) == 3000


def test_one_run_is_listed_alone_and_a_folder_without_runs_is_empty(out, tmp_path):
    assert names(traced_runs(out / "run1")) == ["run1"]
    assert traced_runs(tmp_path / "absent") == []


def test_the_newest_are_kept(out):
    assert names(choose(traced_runs(out), keep=1, max_bytes=None)) == ["run1", "run0"]
    assert choose(traced_runs(out), keep=5, max_bytes=None) == []


def test_the_oldest_go_until_the_rest_fits(out):
    assert names(choose(traced_runs(out), keep=None, max_bytes=2500)) == ["run0"]
    assert names(choose(traced_runs(out), keep=None, max_bytes=0)) == ["run0", "run1", "run2"]
    assert names(choose(traced_runs(out), keep=2, max_bytes=1000)) == ["run0", "run1"]


def test_records_stay_and_traces_go(out):
    for run in choose(traced_runs(out), keep=0, max_bytes=None):
        remove(run)
    assert trace_bytes(out) == 0
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == ["run.json"] * 3


def test_folders_that_are_not_ours_are_listed_and_never_pruned(out):
    make_run(out, "somebody", record=False)
    (run,) = (run for run in traced_runs(out) if run.path.endswith("somebody"))
    assert (run.ours, run.problem) == (False, "no run.json")
    assert "somebody" not in names(choose(traced_runs(out), keep=0, max_bytes=0))


def test_a_run_whose_record_was_never_written_is_known_by_its_name(out):
    make_run(out, "20261127T220537Z-3fa9c1", record=False)
    os.utime(out / "20261127T220537Z-3fa9c1", (NOW - 9000, NOW - 9000))
    assert "20261127T220537Z-3fa9c1" in names(choose(traced_runs(out), keep=0, max_bytes=None))


def test_a_run_under_way_is_left_alone(tmp_path):
    run = make_run(tmp_path, "now", declared=3)
    os.utime(run / "run.json")
    (seen,) = traced_runs(tmp_path)
    assert seen.under_way
    assert choose([seen], keep=0, max_bytes=0) == []


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"cases": 3}', "\x00"])
def test_a_broken_record_is_told_and_stops_nothing(text, out):
    (out / "run1" / "run.json").write_text(text)
    runs = {os.path.basename(run.path): run for run in traced_runs(out)}  # noqa: PTH119
    assert len(runs) == 3
    assert runs["run1"].bytes == 1000


def test_captures_of_killed_processes_are_counted_and_removed(out):
    hidden = out / "run1" / f".capture-{DEAD}-case"
    hidden.mkdir()
    run = next(run for run in traced_runs(out) if run.killed)
    remove(run)
    assert not hidden.exists()
    alive = out / "run2" / f".capture-{os.getpid()}-case"
    alive.mkdir()
    assert [run.killed for run in traced_runs(out)] == [0, 0, 0]


def test_a_linked_folder_is_not_followed(out, tmp_path_factory):
    precious = tmp_path_factory.mktemp("precious")
    (precious / "session").mkdir()
    (precious / "session" / "vm.xplane.pb").write_bytes(b"x")
    linked = make_run(out, "linked", cases=0)
    (linked / "plugins").mkdir()
    (linked / "plugins" / "profile").symlink_to(precious)
    for run in traced_runs(out):
        remove(run)
    assert (precious / "session" / "vm.xplane.pb").exists()
