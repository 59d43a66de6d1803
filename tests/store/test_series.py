"""Runs in a store become series, whatever the order of arrival and the tool that made them."""

import dataclasses
from datetime import UTC, datetime

import pytest

from qwenperf.errors import StoreError
from qwenperf.gate.differences import environment_key
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import Metric, Status
from qwenperf.store.base import Window
from qwenperf.store.check import check_store


def test_points_are_in_the_order_of_their_commits(url, made):
    """A commit that is measured late stands where it belongs, and one commit has several points."""
    late = made.run_of(1, value=2.5, id="late", created_at="2026-03-01T00:00:00Z")
    store = made.filled(url, [made.run_of(2, value=3.0), made.run_of(0, value=1.0), late, made.run_of(1, value=2.0)])
    assert made.values(store.series(made.CASE, "tpot_s")) == [1.0, 2.0, 2.5, 3.0]
    assert [run.run for run in store.runs()] == ["run-0000", "run-0001", "late", "run-0002"]


def test_readings_are_counted_and_not_all_read(made, tmp_path):
    """What a key of the file says of itself does not matter, nor how many readings there are."""
    samples = tuple(float(one) for one in range(1, 5000))
    counted = dataclasses.replace(made.foreign(1.0), samples=samples)
    odd = dataclasses.replace(made.foreign(1.0), extra={"readings of the index": "many"})
    store = made.filled(str(tmp_path / "s"), [made.run_of(0, metrics={"a": counted, "b": odd})])
    assert [store.series(made.CASE, name).points[0].samples for name in "ab"] == [4999, 1]
    assert check_store(store) == ([], 1)


def test_runs_without_a_commit_are_ordered_by_when_they_were_measured(url, made):
    """A time without a zone is read as UTC."""
    runs = [
        made.run_of(0, value=v, commit={}, id=str(v), created_at=f"2026-01-0{v:.0f}T00:00:00") for v in (3.0, 1.0, 2.0)
    ]
    assert made.values(made.filled(url, runs).series(made.CASE, "tpot_s")) == [1.0, 2.0, 3.0]


def test_a_point_says_where_it_came_from(url, made):
    """Interval, coverage, readings, commit, machine and trace go with the value."""
    store = made.filled(url, [made.run_of(3, value=0.01)])
    series = store.series(made.CASE, "tpot_s")
    (point,) = series.points
    assert (series.unit, series.direction, series.kind) == ("s", Direction.LOWER, Kind.TIMED)
    assert (point.interval, point.samples, point.extra["coverage"]) == (pytest.approx((0.009, 0.011)), 3, 0.75)
    assert (point.run, point.commit, point.branch) == ("run-0003", f"{3:040x}", "main")
    assert point.committed_at == point.measured_at == "2026-01-04T12:00:00+00:00"
    assert point.environment == environment_key(made.MACHINE)
    assert point.trace == "plugins/profile/3"
    assert point.extra["class"] == "cpu-x86_64-2core"


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
    store = made.filled(str(tmp_path / "store"), runs)
    names = [f"run-{day:04}" for day in days]
    assert [point.run for point in store.series(made.CASE, "tpot_s", window).points] == names
    assert [run.run for run in store.runs(window)] == names


def test_an_environment_is_found_by_the_beginning_of_its_hash(made, tmp_path):
    """As people find commits."""
    other = made.run_of(1, environment={**made.MACHINE, "jax": "0.12.0"})
    store = made.filled(str(tmp_path / "store"), [made.run_of(0), other])
    window = Window(environment=environment_key(other.environment)[:6])
    assert [point.run for point in store.series(made.CASE, "tpot_s", window).points] == ["run-0001"]


def test_metrics_that_no_registry_knows_are_series_too(url, made):
    """Unit, direction and kind come with the run."""
    store = made.filled(url, [made.run_of(0, metrics={"parse": made.foreign(3.0)})])
    series = store.series(made.CASE, "parse")
    assert (series.unit, series.direction, made.values(series)) == ("ms", Direction.LOWER, [3.0])


def test_two_units_are_never_one_series(made, tmp_path):
    """Milliseconds and seconds in one line would be a step of a thousand; each alone is a series."""
    runs = [
        made.run_of(0, metrics={"parse": made.foreign(3.0)}),
        made.run_of(1, metrics={"parse": made.foreign(0.003, "s")}),
    ]
    store = made.filled(str(tmp_path / "store"), runs)
    with pytest.raises(StoreError, match=r"parse of .* is in 'ms' and 's'"):
        store.series(made.CASE, "parse")
    later = store.series(made.CASE, "parse", Window(since=datetime(2026, 1, 2, tzinfo=UTC)))
    assert (later.unit, made.values(later)) == ("s", [0.003])


def test_the_machine_has_series_of_its_own(url, made):
    """What the roofline was when a case was measured tells a step of the machine; it is no metric of the case."""
    store = made.filled(url, [made.run_of(0), made.run_of(1, cases=())])
    ceiling = store.series(made.CASE, "roofline_bytes_per_s")
    assert (ceiling.unit, ceiling.direction, made.values(ceiling)) == ("bytes/s", Direction.HIGHER, [2e10])
    assert store.cases() == {made.CASE: ["peak_bytes", "tpot_s"]}


def test_a_canary_that_nobody_measured_is_empty(made, tmp_path):
    """Foreign runs have none."""
    case = dataclasses.replace(
        made.run_of(0).cases[0], evidence=dataclasses.replace(made.run_of(0).cases[0].evidence, roofline=None)
    )
    store = made.filled(str(tmp_path / "store"), [made.run_of(0, cases=(case,))])
    assert store.series(made.CASE, "roofline_flops_per_s").points == ()


def test_what_was_not_measured_is_no_point(url, made):
    """A case that crashed may have left numbers; they are of nothing."""
    case = dataclasses.replace(made.run_of(1).cases[0], status=Status.FAILED, error="crashed")
    store = made.filled(url, [made.run_of(0), made.run_of(1, cases=(case,))])
    assert [point.run for point in store.series(made.CASE, "tpot_s").points] == ["run-0000"]
    assert len(store.runs()) == 2


def test_huge_and_tiny_values_come_back_as_they_were(made, tmp_path):
    """Every finite number is a value."""
    seen = {"a": made.foreign(1.7e308), "b": made.foreign(-5e-324), "c": made.foreign(2.0**60)}
    store = made.filled(str(tmp_path / "s"), [made.run_of(0, metrics=seen)])
    assert [made.values(store.series(made.CASE, name))[0] for name in seen] == [one.value for one in seen.values()]


def test_the_newest_shape_of_a_metric_is_shown(made, tmp_path):
    """A direction that was corrected is the present one."""
    wrong = dataclasses.replace(made.foreign(1.0), direction=Direction.HIGHER)
    runs = [made.run_of(0, metrics={"m": wrong}), made.run_of(1, metrics={"m": made.foreign(2.0)})]
    series = made.filled(str(tmp_path / "s"), runs).series(made.CASE, "m")
    assert (series.direction, made.values(series)) == (Direction.LOWER, [1.0, 2.0])


def test_a_direction_that_was_corrected_twice_is_that_of_the_newest_point(made, tmp_path):
    """It is the first one again, and not the one in between."""
    wrong = dataclasses.replace(made.foreign(2.0), direction=Direction.HIGHER)
    seen = (made.foreign(1.0), wrong, made.foreign(3.0))
    runs = [made.run_of(day, metrics={"parse": one}) for day, one in enumerate(seen)]
    series = made.filled(str(tmp_path / "s"), runs).series(made.CASE, "parse")
    assert (series.direction, made.values(series)) == (Direction.LOWER, [1.0, 2.0, 3.0])


def test_a_run_is_indexed_whatever_it_says_of_itself(made, tmp_path):
    """A number of readings that no index holds, and a metric of the name of a canary."""
    odd = dataclasses.replace(made.foreign(1.0), extra={"readings of the index": 10**30})
    own = Metric(value=3.0, unit="bytes/s", direction=Direction.HIGHER, kind=Kind.TIMED)
    run = made.run_of(0, metrics={"a": odd, "roofline_bytes_per_s": own})
    store = made.filled(str(tmp_path / "s"), [run])
    assert made.values(store.series(made.CASE, "roofline_bytes_per_s")) == [3.0]
    assert made.values(store.series(made.CASE, "a")) == [1.0]
    assert store.problems() == []
