"""Traces on disk are listed and pruned run by run; records stay, and so does what is not ours."""

import json
import os

import pytest

from qwenperf.lab.trace_files import choose, remove, remove_killed, trace_bytes, traced_runs
from qwenperf.measure.capture_folder import under_way

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


def test_a_comparison_is_under_way_as_long_as_its_process_marks_it(tmp_path):
    """Its record has all cases from the first pair on, and a pair may take longer than an hour."""
    run = make_run(tmp_path, "compare-20261127T220537Z-3fa9c1")
    (run / "run.json").rename(run / "comparison.json")
    with under_way(run):
        (seen,) = traced_runs(tmp_path)
        assert seen.under_way
        assert choose([seen], keep=0, max_bytes=0) == []
    assert choose(traced_runs(tmp_path), keep=0, max_bytes=0) != []


def test_what_killed_captures_left_takes_room_and_makes_none_for_others(out):
    """It counts in lists and for the quota; no trace has to go because of it, and the traces beside it stay."""
    hidden = out / "run1" / f".capture-{DEAD}-case" / "deep"
    hidden.mkdir(parents=True)
    (hidden / "vm.xplane.pb").write_bytes(bytes(500))
    run = next(run for run in traced_runs(out) if run.killed)
    assert (run.bytes, run.killed_bytes, trace_bytes(out)) == (1500, 500, 3500)
    assert choose(traced_runs(out), keep=None, max_bytes=3000) == []
    remove_killed(run)
    assert (trace_bytes(out), hidden.exists()) == (3000, False)


def test_somebody_s_trace_in_the_folder_hides_no_run(out):
    (out / "plugins" / "profile" / "session").mkdir(parents=True)
    (out / "plugins" / "profile" / "session" / "vm.xplane.pb").write_bytes(b"x")
    assert sorted(names(traced_runs(out))) == sorted([out.name, "run0", "run1", "run2"])
    assert sorted(names(choose(traced_runs(out), keep=0, max_bytes=None))) == ["run0", "run1", "run2"]


def test_traces_behind_a_link_are_told_and_never_chosen(out, tmp_path_factory):
    """They lie on another disk: nothing would be removed."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (out / "run0" / "plugins" / "profile").rename(elsewhere / "profile")
    (out / "run0" / "plugins" / "profile").symlink_to(elsewhere / "profile")
    run = next(run for run in traced_runs(out) if run.path.endswith("run0"))
    assert (run.bytes, run.problem) == (1000, "its traces lie behind a link and stay")
    assert names(choose(traced_runs(out), keep=0, max_bytes=None)) == ["run2", "run1"]


def test_a_link_that_is_called_like_a_killed_capture_stops_nothing(out):
    (out / "run0" / f".capture-{DEAD}-x").symlink_to(out / "run1")
    for run in traced_runs(out):
        assert run.killed == 0
        remove(run)
    assert trace_bytes(out) == 0
    assert (out / "run1" / "run.json").exists()
