"""Runs in a store become series, whatever the place, the order of arrival and the tool that made them."""

import dataclasses
import json
import os
from datetime import UTC, datetime

import pytest

from qwenperf.errors import ConfigError, NothingMeasuredError, RecordError, StoreError, UnknownNameError
from qwenperf.gate.differences import environment_key
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import Metric, RunRecord, Status, metric
from qwenperf.store.base import Added, Window
from qwenperf.store.check import check_store
from qwenperf.store.directory import open_store


def filled(url, made, runs):
    store = open_store(url)
    assert {store.add(made.source_of(run)) for run in runs} == {Added.ADDED}
    return store


def values(series):
    return [point.value for point in series.points]


def test_points_are_in_the_order_of_their_commits(url, made):
    """A commit that is measured late stands where it belongs, and one commit has several points."""
    late = made.run_of(1, value=2.5, id="late", created_at="2026-03-01T00:00:00Z")
    store = filled(url, made, [made.run_of(2, value=3.0), made.run_of(0, value=1.0), late, made.run_of(1, value=2.0)])
    assert values(store.series(made.CASE, "tpot_s")) == [1.0, 2.0, 2.5, 3.0]
    assert [run.run for run in store.runs()] == ["run-0000", "run-0001", "late", "run-0002"]


def test_readings_are_counted_and_not_all_read(made, tmp_path):
    """What a key of the file says of itself does not matter, nor how many readings there are."""
    samples = tuple(float(one) for one in range(1, 5000))
    counted = dataclasses.replace(made.foreign(1.0), samples=samples)
    odd = dataclasses.replace(made.foreign(1.0), extra={"readings of the index": "many"})
    store = filled(str(tmp_path / "s"), made, [made.run_of(0, metrics={"a": counted, "b": odd})])
    assert [store.series(made.CASE, name).points[0].samples for name in "ab"] == [4999, 1]
    assert check_store(store) == ([], 1)


def test_runs_without_a_commit_are_ordered_by_when_they_were_measured(url, made):
    """A time without a zone is read as UTC."""
    runs = [
        made.run_of(0, value=v, commit={}, id=str(v), created_at=f"2026-01-0{v:.0f}T00:00:00") for v in (3.0, 1.0, 2.0)
    ]
    assert values(filled(url, made, runs).series(made.CASE, "tpot_s")) == [1.0, 2.0, 3.0]


def test_a_point_says_where_it_came_from(url, made):
    """Interval, coverage, readings, commit, machine and trace go with the value."""
    store = filled(url, made, [made.run_of(3, value=0.01)])
    series = store.series(made.CASE, "tpot_s")
    (point,) = series.points
    assert (series.unit, series.direction, series.kind) == ("s", Direction.LOWER, Kind.TIMED)
    assert (point.interval, point.samples, point.extra["coverage"]) == (pytest.approx((0.009, 0.011)), 3, 0.75)
    assert (point.run, point.commit, point.branch) == ("run-0003", f"{3:040x}", "main")
    assert point.committed_at == point.measured_at == "2026-01-04T12:00:00+00:00"
    assert point.environment == environment_key(made.MACHINE)
    assert point.trace == "plugins/profile/3"
    assert point.extra["class"] == "cpu-x86_64-2core"


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
    assert values(store.series(made.CASE, "tpot_s")) == [0.01]


def test_a_run_is_read_back_whole(url, made):
    """``get`` returns what was added, evidence and all; an unknown one offers the nearest."""
    store = filled(url, made, [made.run_of(0), made.run_of(1)])
    assert store.get("run-0001") == made.run_of(1)
    with pytest.raises(UnknownNameError, match=r"unknown run 'run-0002'.*Did you mean 'run-0001'"):
        store.get("run-0002")


@pytest.mark.parametrize(
    ("window", "days"),
    [
        (Window(last=2), [3, 4]),
        (Window(branch="side"), [3]),
        (Window(since=datetime(2026, 1, 3, 12, tzinfo=UTC)), [2, 3, 4]),
        (Window(since=datetime(2026, 1, 3, 12, tzinfo=UTC), last=1), [4]),
        (Window(environment="cpu-x86_64-8core"), [4]),
        (Window(environment="cpu-x86_64-1core"), []),
        (Window(branch="main", environment="cpu-x86_64-2core"), [0, 1, 2]),
    ],
)
def test_a_window_is_a_part_of_the_history(made, tmp_path, window, days):
    """Branch, age, environment and number cut alike from series and from runs."""
    runs = [made.run_of(day) for day in range(5)]
    runs[3] = made.run_of(3, commit={**runs[3].commit, "branch": "side"})
    runs[4] = made.run_of(4, environment={**made.MACHINE, "cores": 8})
    store = filled(str(tmp_path / "store"), made, runs)
    names = [f"run-{day:04}" for day in days]
    assert [point.run for point in store.series(made.CASE, "tpot_s", window).points] == names
    assert [run.run for run in store.runs(window)] == names


def test_an_environment_is_found_by_the_beginning_of_its_hash(made, tmp_path):
    """As people find commits."""
    other = made.run_of(1, environment={**made.MACHINE, "jax": "0.12.0"})
    store = filled(str(tmp_path / "store"), made, [made.run_of(0), other])
    window = Window(environment=environment_key(other.environment)[:6])
    assert [point.run for point in store.series(made.CASE, "tpot_s", window).points] == ["run-0001"]


def test_metrics_that_no_registry_knows_are_series_too(url, made):
    """Unit, direction and kind come with the run."""
    store = filled(url, made, [made.run_of(0, metrics={"parse": made.foreign(3.0)})])
    series = store.series(made.CASE, "parse")
    assert (series.unit, series.direction, values(series)) == ("ms", Direction.LOWER, [3.0])


def test_two_units_are_never_one_series(made, tmp_path):
    """Milliseconds and seconds in one line would be a step of a thousand; each alone is a series."""
    runs = [
        made.run_of(0, metrics={"parse": made.foreign(3.0)}),
        made.run_of(1, metrics={"parse": made.foreign(0.003, "s")}),
    ]
    store = filled(str(tmp_path / "store"), made, runs)
    with pytest.raises(StoreError, match=r"parse of .* is in 'ms' and 's'"):
        store.series(made.CASE, "parse")
    later = store.series(made.CASE, "parse", Window(since=datetime(2026, 1, 2, tzinfo=UTC)))
    assert (later.unit, values(later)) == ("s", [0.003])


def test_the_machine_has_series_of_its_own(url, made):
    """What the roofline was when a case was measured tells a step of the machine; it is no metric of the case."""
    store = filled(url, made, [made.run_of(0), made.run_of(1, cases=())])
    ceiling = store.series(made.CASE, "roofline_bytes_per_s")
    assert (ceiling.unit, ceiling.direction, values(ceiling)) == ("bytes/s", Direction.HIGHER, [2e10])
    assert store.cases() == {made.CASE: ["peak_bytes", "tpot_s"]}


def test_a_canary_that_nobody_measured_is_empty(made, tmp_path):
    """Foreign runs have none."""
    case = dataclasses.replace(
        made.run_of(0).cases[0], evidence=dataclasses.replace(made.run_of(0).cases[0].evidence, roofline=None)
    )
    store = filled(str(tmp_path / "store"), made, [made.run_of(0, cases=(case,))])
    assert store.series(made.CASE, "roofline_flops_per_s").points == ()


def test_unknown_names_offer_the_nearest(made, tmp_path):
    """A case, a metric, and a store in which nothing is."""
    store = filled(str(tmp_path / "store"), made, [made.run_of(0)])
    with pytest.raises(UnknownNameError, match=r"unknown case '4x128/cached/b2'.*Did you mean '4x128/cached/b1'"):
        store.series("4x128/cached/b2", "tpot_s")
    with pytest.raises(UnknownNameError, match=r"unknown metric of 4x128/cached/b1 'tpot'.*Did you mean 'tpot_s'"):
        store.series(made.CASE, "tpot")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingMeasuredError, match="has no measured case"):
        open_store(str(tmp_path / "empty")).series(made.CASE, "tpot_s")
    with pytest.raises(StoreError, match=r"there is no .*nowhere.*qwenperf store add"):
        open_store(str(tmp_path / "nowhere")).runs()


def test_what_was_not_measured_is_no_point(url, made):
    """A case that crashed may have left numbers; they are of nothing."""
    case = dataclasses.replace(made.run_of(1).cases[0], status=Status.FAILED, error="crashed")
    store = filled(url, made, [made.run_of(0), made.run_of(1, cases=(case,))])
    assert [point.run for point in store.series(made.CASE, "tpot_s").points] == ["run-0000"]
    assert len(store.runs()) == 2


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
    store = filled(url, made, [made.run_of(place, id=name) for place, name in enumerate(HOSTILE)])
    assert [run.run for run in store.runs()] == HOSTILE
    assert [store.get(name).id for name in HOSTILE] == HOSTILE
    assert not {path.name for path in tmp_path.iterdir()} - {"store", "cache"}
    assert all(len(run.folder) < 140 and "/" not in run.folder for run in store.runs())


def test_a_folder_of_runs_is_a_store_as_it_is(made, tmp_path):
    """What ``qwenperf run`` leaves needs no copy; comparisons and files beside the runs do not matter."""
    for day in range(3):
        made.write_run(tmp_path / "profiles", made.run_of(day, value=1.0 + day))
    (tmp_path / "profiles" / "compared").mkdir()
    (tmp_path / "profiles" / "compared" / "comparison.json").write_text("{}")
    (tmp_path / "profiles" / "README.md").write_text("runs")
    (tmp_path / "profiles" / ".incoming-x").mkdir()
    store = open_store(str(tmp_path / "profiles"))
    assert values(store.series(made.CASE, "tpot_s")) == [1.0, 2.0, 3.0]
    assert store.problems() == []


def test_what_changes_in_a_folder_is_noticed(made, tmp_path):
    """A run that goes on, one that is removed, and one that was broken and is mended."""
    out = tmp_path / "profiles"
    first, second = (made.write_run(out, made.run_of(day)) for day in range(2))
    whole = (first / "run.json").read_text()
    (first / "run.json").write_text(whole[:50])
    assert [run.run for run in open_store(str(out)).runs()] == ["run-0001"]
    (first / "run.json").write_text(whole.replace('"value": 0.01', '"value": 0.5'))
    assert values(open_store(str(out)).series(made.CASE, "tpot_s")) == [0.5, 0.01]
    (second / "run.json").unlink()
    store = open_store(str(out))
    assert values(store.series(made.CASE, "tpot_s")) == [0.5]
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


def test_cases_that_were_renamed_keep_their_history(url, made):
    """Old names lead to the present one, over several renames; asked by any of them, the series is whole."""
    runs = [
        made.run_of(0, value=1.0, case="a"),
        made.run_of(1, value=2.0, case="b"),
        made.run_of(2, value=3.0, case="c"),
    ]
    filled(url, made, runs)
    store = open_store(url, ({"a": "b", "b": "c"}, "here"))
    assert list(store.cases()) == ["c"]
    for name in ("a", "b", "c"):
        series = store.series(name, "tpot_s")
        assert (series.case, values(series)) == ("c", [1.0, 2.0, 3.0])
    assert [point.extra.get("case") for point in series.points] == ["a", "b", None]


def test_the_store_itself_may_say_what_was_renamed(made, tmp_path):
    """``store.toml`` goes with the runs, for everybody who reads them."""
    filled(str(tmp_path / "s"), made, [made.run_of(0, case="old"), made.run_of(1, case="new")])
    (tmp_path / "s" / "store.toml").write_text('version = 1\n[aliases]\nold = "new"\n')
    assert len(open_store(str(tmp_path / "s")).series("new", "tpot_s").points) == 2


def test_two_cases_of_one_run_are_not_one(made, tmp_path):
    """An alias that joins what exists side by side is refused, with the run and both names."""
    case = made.run_of(0).cases[0]
    both = (case, dataclasses.replace(case, id="other"))
    filled(str(tmp_path / "s"), made, [made.run_of(0, cases=both)])
    store = open_store(str(tmp_path / "s"), ({"other": made.CASE}, "here"))
    with pytest.raises(StoreError, match="run run-0000 has 4x128/cached/b1 and other"):
        store.series(made.CASE, "tpot_s")


def test_notes_lie_beside_the_runs(url):
    """What others keep in a store is whole or absent, and takes no run's name."""
    store = open_store(url)
    store.write_note("regressions.json", b"[1]")
    store.write_note("regressions.json", b"[2]")
    assert (store.read_note("regressions.json"), store.read_note("none.json")) == (b"[2]", None)
    assert list(store.runs()) == []
    with pytest.raises(StoreError, match="could be a run's folder"):
        store.write_note("run-0000", b"")


def test_huge_and_tiny_values_come_back_as_they_were(made, tmp_path):
    """Every finite number is a value."""
    seen = {"a": made.foreign(1.7e308), "b": made.foreign(-5e-324), "c": made.foreign(2.0**60)}
    store = filled(str(tmp_path / "s"), made, [made.run_of(0, metrics=seen)])
    assert [values(store.series(made.CASE, name))[0] for name in seen] == [one.value for one in seen.values()]


def test_the_newest_shape_of_a_metric_is_shown(made, tmp_path):
    """A direction that was corrected is the present one."""
    wrong = dataclasses.replace(made.foreign(1.0), direction=Direction.HIGHER)
    runs = [made.run_of(0, metrics={"m": wrong}), made.run_of(1, metrics={"m": made.foreign(2.0)})]
    series = filled(str(tmp_path / "s"), made, runs).series(made.CASE, "m")
    assert (series.direction, values(series)) == (Direction.LOWER, [1.0, 2.0])


def test_a_run_of_nothing_is_a_run(url, made):
    """A record without cases and environment is kept, and has no points."""
    bare = RunRecord(id="bare", created_at="2026-01-01T00:00:00Z", suite="none", environment={})
    store = filled(url, made, [bare, made.run_of(0, metrics={"compile_s": metric("compile_s", 1.0)})])
    first = store.runs()[0]
    assert (first.run, first.environment, first.environment_class) == ("bare", "", "")


def test_a_run_that_another_process_brings_while_folders_are_listed_stays_in_the_index(made, tmp_path, monkeypatch):
    """Both share one index: what one of them did not see is not forgotten for the other."""
    first, second = (filled(str(tmp_path / "store"), made, runs) for runs in ([made.run_of(0)], [made.run_of(1)]))
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
    store = filled(str(root), made, [made.run_of(day) for day in range(4)])
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


def test_a_run_is_indexed_whatever_it_says_of_itself(made, tmp_path):
    """A number of readings that no index holds, and a metric of the name of a canary."""
    odd = dataclasses.replace(made.foreign(1.0), extra={"readings of the index": 10**30})
    own = Metric(value=3.0, unit="bytes/s", direction=Direction.HIGHER, kind=Kind.TIMED)
    run = made.run_of(0, metrics={"a": odd, "roofline_bytes_per_s": own})
    store = filled(str(tmp_path / "s"), made, [run])
    assert values(store.series(made.CASE, "roofline_bytes_per_s")) == [3.0]
    assert values(store.series(made.CASE, "a")) == [1.0]
    assert store.problems() == []


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_in_utc_has_is_refused(made, tmp_path, when):
    """It would break every order and window that it is in."""
    with pytest.raises(RecordError, match="which is no time"):
        open_store(str(tmp_path / "s")).add(made.source_of(made.run_of(0, created_at=when)))


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
    store = filled(str(tmp_path / "store"), made, [made.run_of(0), made.run_of(1)])
    assert len(store.runs()) == 2
    full = open_store(str(tmp_path / "store"))
    full._index._connection.execute("PRAGMA max_page_count = 1")
    store.add(made.source_of(made.run_of(2, metrics={f"m{n}": made.foreign(1.0) for n in range(2000)})))
    assert len(full.runs()) == 3
    assert len(full.cases()[made.CASE]) == 2002
