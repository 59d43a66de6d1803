"""pytest-benchmark's JSON: what it writes here and now, round and back into its own reader."""

import json
import os
import subprocess
import sys

import pytest

from qwenperf.errors import FormatError
from qwenperf.formats import pytest_benchmark
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema import codec
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")

NOT_OURS = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
"""What this session is told; pytest-benchmark measures nothing in a worker of xdist."""


def alone():
    """Return an environment with no plugin but the one in question: starting all of them takes seconds."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


SUITE = """
import pytest

@pytest.mark.parametrize("size", [10, 100])
@pytest.mark.benchmark(group="sums")
def test_sum(benchmark, size):
    benchmark.extra_info["note"] = "x"
    benchmark.pedantic(sum, args=(range(size),), rounds=5)

def test_ours(benchmark):
    metrics = {"tpot_s": {"value": 0.004, "unit": "s", "direction": "lower", "kind": "timed"}}
    benchmark.extra_info["qwenperf"] = {"id": "tiny/cached/b1", "metrics": metrics, "verdicts": []}
    benchmark.pedantic(list, rounds=1)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The file of a real session, in a checkout of its own."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "test_it.py").write_text(SUITE)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q", "-b", "trunk"), ("add", "."), (*identity, "commit", "-qm", "x")):
        subprocess.run(("git", *words), cwd=folder, check=True)
    options = ("-q", "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider")
    subprocess.run(
        (sys.executable, "-m", "pytest", *options, "--benchmark-json=out.json", "--benchmark-save-data", "test_it.py"),
        cwd=folder, check=True, capture_output=True, env=alone(),
    )  # fmt: skip
    return folder / "out.json"


def read(text, told=TOLD, name="out.json"):
    (run,) = pytest_benchmark.read([Document(name=name, text=text)], told)
    return run


def test_a_live_file_is_read_whole(written):
    """Tests are cases, statistics metrics with units and directions, the commit is the checkout's."""
    text = written.read_text()
    run, data = read(text), json.loads(text)
    assert [case.id for case in run.cases] == [one["fullname"] for one in data["benchmarks"]]
    small, _, ours = run.cases
    stats = data["benchmarks"][0]["stats"]
    assert small.metrics["median_s"].value == stats["median"]
    assert len(small.metrics["median_s"].samples) == 5
    assert small.metrics["ops_per_s"].direction is Direction.HIGHER
    assert small.metrics["stddev_s"].direction is Direction.NONE
    assert small.spec["params"] == {"size": 10}
    assert ours.metrics["tpot_s"] == metric("tpot_s", 0.004)
    assert ours.spec["of"] == "tiny/cached/b1"
    head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=written.parent, check=True, capture_output=True, text=True)
    assert run.commit["sha"] == head.stdout.strip()
    assert run.commit["branch"] == "trunk"
    assert run.findings == ()
    assert run.environment["volatile"]["node"] == data["machine_info"]["node"]


def test_a_live_file_is_the_same_after_a_round_through_run_json(written, tmp_path):
    """Nothing that pytest-benchmark wrote is lost, and it can compare what we wrote with what it wrote."""
    text = written.read_text()
    run = codec.loads(codec.dumps(read(text)))
    (document,) = pytest_benchmark.write([run])
    assert json.loads(document.text) == json.loads(text)
    assert read(document.text) == read(text)
    storage = tmp_path / "machine"
    storage.mkdir()
    (storage / "0001_a.json").write_text(text)
    (storage / "0002_b.json").write_text(document.text)
    words = (sys.executable, "-m", "pytest_benchmark", "--storage", str(tmp_path), "compare", "--columns=median")
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True, env=alone())
    assert done.stdout.count("test_sum[10]") == 2


def minimal(**changes):
    bench = {"fullname": "t.py::test_a", "name": "test_a", "stats": {"median": 0.5, "mean": 0.5}}
    data = {"machine_info": {}, "benchmarks": [bench], "datetime": "2020-01-01T00:00:00", "version": "3.0"}
    return data | changes


def test_older_files_lack_what_was_not_there_yet():
    """No operations per second, a time without a zone, no commit."""
    run = read(json.dumps(minimal()))
    assert run.cases[0].metrics["ops_per_s"].value == 2.0
    assert run.created_at == "2020-01-01T00:00:00+00:00"
    assert run.commit == {}
    without = minimal(commit_info={"id": "unversioned", "branch": "(unknown)", "time": None, "dirty": False})
    assert read(json.dumps(without)).commit == {}


def test_a_file_without_a_time_says_so_and_takes_what_is_told():
    """What a person says is taken; what the file says itself is not overruled."""
    data = minimal()
    del data["datetime"]
    assert [finding.code for finding in read(json.dumps(data)).findings] == ["time-of-the-file"]
    told = Told(modified_at=TOLD.modified_at, at="2026-02-02T00:00:00+00:00", commit="f" * 40)
    run = read(json.dumps(data), told)
    assert (run.created_at, run.commit["sha"], run.findings) == ("2026-02-02T00:00:00+00:00", "f" * 40, ())
    with pytest.raises(FormatError, match="the file's own time is 2020-01-01"):
        read(json.dumps(minimal()), told)


@pytest.mark.parametrize(
    ("stats", "told"),
    [
        ({}, "benchmarks.0..stats.median is missing"),
        ({"median": "fast"}, "median is 'fast', which is not a number"),
        ({"median": float("nan")}, "median is nan"),
        ({"median": 1, "data": [1, None]}, r"data\[1\] is missing, which is not a number"),
        ({"median": 1, "rounds": []}, "rounds is \\[\\], which is not a number"),
    ],
)
def test_wrong_statistics_are_told_with_their_place(stats, told):
    """The file, the test's place in it, the statistic."""
    data = minimal()
    data["benchmarks"][0]["stats"] = stats
    with pytest.raises(FormatError, match=told):
        read(json.dumps(data))


@pytest.mark.parametrize("direction", ["up", [], {}, 1, True])
def test_a_direction_of_ours_that_is_none_is_told_with_its_place(direction):
    """Also where it is nothing that could be looked up."""
    data = minimal()
    data["benchmarks"][0]["extra_info"] = {"qwenperf": {"metrics": {"tpot_s": {"value": 1, "direction": direction}}}}
    with pytest.raises(FormatError, match=r"direction is .*, which is not one of lower"):
        read(json.dumps(data))


def test_two_results_of_one_test_are_refused():
    """History could not tell them apart."""
    data = minimal()
    data["benchmarks"] *= 2
    with pytest.raises(FormatError, match=r"two results of 't\.py::test_a'"):
        read(json.dumps(data))


def test_a_run_of_ours_becomes_what_pytest_benchmark_reads():
    """The time with readings stands for a case; all metrics come back from extra_info."""
    timed = metric("tpot_s", 0.2, samples=(0.1, 0.2, 0.4))
    counted = Metric(value=7.0, unit="bytes", direction=Direction.LOWER, kind=timed.kind)
    case = CaseRecord(
        id="a/b", spec={}, metrics={"request_s": metric("request_s", 9.0), "tpot_s": timed, "size": counted}
    )
    run = RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="s", environment={}, cases=(case,))
    (document,) = pytest_benchmark.write([run])
    stats = json.loads(document.text)["benchmarks"][0]["stats"]
    assert (stats["median"], stats["min"], stats["max"], stats["rounds"]) == (0.2, 0.1, 0.4, 3)
    assert stats["q1"] == pytest.approx(0.15)
    again = read(document.text).cases[0].metrics
    assert again["size"].value == 7.0
    assert again["tpot_s"].unit == "s"
    with pytest.raises(FormatError, match="a/b has no time"):
        pytest_benchmark.write([RunRecord(**{**vars(run), "cases": (CaseRecord(id="a/b", spec={}),)})])
    with pytest.raises(FormatError, match="one run, not 2"):
        pytest_benchmark.write([run, run])
