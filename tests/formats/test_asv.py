"""Results of asv: files in its layout, what it writes here and now, and whether it takes what we write."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qwenperf.errors import FormatError
from qwenperf.formats import asv_read, asv_write
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema import codec
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, RunRecord, Status, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
COLUMNS = list(asv_write.COLUMNS)
MACHINE = {"machine": "m", "os": "Linux", "cpu": "c", "num_cpu": "2", "arch": "x", "ram": "16GiB", "version": 1}
NAN, INF = float("nan"), float("inf")


def row(**cells):
    values = [cells.get(column) for column in COLUMNS]
    while values and values[-1] is None:
        values.pop()
    return values


RESULT = {
    "commit_hash": "a" * 40, "env_name": "virtualenv-py3.11-jax0.10.2", "date": 1767225600000,
    "params": {"machine": "m", "python": "3.11", "jax": "0.10.2", "os": "Linux"}, "python": "3.11",
    "requirements": {"jax": "0.10.2"}, "env_vars": {"JAX_PLATFORMS": "cpu"}, "result_columns": COLUMNS,
    "durations": {"<build>": 3.5, "<setup_cache suite:3>": 1.25}, "version": 2,
    "results": {
        "suite.time_sum": row(
            result=[0.5], params=[], version="1", started_at=1767312000000, duration=2.5, stats_ci_99_a=[0.4],
            stats_ci_99_b=[0.6], stats_q_25=[0.45], stats_q_75=[0.55], stats_number=[10], stats_repeat=[3],
            samples=[[0.4, 0.5, 0.6]], profile="eJw=",
        ),
        "suite.S.track_ms": row(
            result=[1.5, NAN, None, 3], params=[["'a'", "'b'"], ["1", "2"]], version="2", started_at=1767312001000,
            duration=0.5, stats_ci_99_a=[-INF, None, None, None], stats_ci_99_b=[INF, None, None, None],
        ),
        "suite.track_rate": row(result=[10.0], params=[], version="1"),
        "suite.peakmem_it": row(result=None, params=[], version="1"),
    },
}  # fmt: skip
BENCHMARKS = {
    "suite.time_sum": {
        "name": "suite.time_sum", "type": "time", "unit": "seconds", "version": "1", "params": [], "param_names": [],
        "number": 0, "repeat": 0, "rounds": 2, "sample_time": 0.01, "warmup_time": -1, "min_run_count": 2,
        "timeout": 60.0,
    },
    "suite.S.track_ms": {
        "name": "suite.S.track_ms", "type": "track", "unit": "ms", "version": "2",
        "params": [["'a'", "'b'"], ["1", "2"]], "param_names": ["engine", "batch"], "pretty_name": "Time",
    },
    "suite.track_rate": {
        "name": "suite.track_rate", "type": "track", "unit": "tokens/s", "version": "1", "params": [],
        "param_names": [],
    },
    "suite.peakmem_it": {
        "name": "suite.peakmem_it", "type": "peakmemory", "unit": "bytes", "version": "1", "params": [],
        "param_names": [],
    },
    "version": 2,
}  # fmt: skip


def documents(result=RESULT, benchmarks=BENCHMARKS, machine=MACHINE):
    named = {"r/benchmarks.json": benchmarks, "r/m/machine.json": machine, "r/m/aaaaaaaa-env.json": result}
    return [Document(name=name, text=json.dumps(data)) for name, data in named.items() if data is not None]


def read(**parts):
    (run,) = asv_read.read(documents(**parts), TOLD)
    return run


def test_benchmarks_with_their_parameters_are_cases():
    """Spelled as asv spells them; a skip is no failure, and a failure is no skip."""
    run = read()
    cases = {case.id: case for case in run.cases}
    assert list(cases) == [
        "suite.time_sum", "suite.S.track_ms('a', 1)", "suite.S.track_ms('a', 2)", "suite.S.track_ms('b', 1)",
        "suite.S.track_ms('b', 2)", "suite.track_rate", "suite.peakmem_it",
    ]  # fmt: skip
    timed = cases["suite.time_sum"].metrics["time_s"]
    assert (timed.value, timed.unit, timed.interval, timed.coverage) == (0.5, "s", (0.4, 0.6), 0.99)
    assert timed.samples == (0.4, 0.5, 0.6)
    assert cases["suite.S.track_ms('a', 1)"].metrics["value"].interval is None
    assert cases["suite.S.track_ms('a', 1)"].spec["params"] == {"engine": "'a'", "batch": "1"}
    assert cases["suite.S.track_ms('a', 2)"].status is Status.MEASURED
    assert cases["suite.S.track_ms('a', 2)"].metrics == {}
    assert cases["suite.S.track_ms('b', 1)"].status is Status.FAILED
    assert cases["suite.peakmem_it"].status is Status.FAILED


def test_commit_time_and_machine_are_those_of_the_files():
    """The run is as old as its last benchmark, the commit as old as it is."""
    run = read()
    assert run.commit == {"sha": "a" * 40, "committed_at": "2026-01-01T00:00:00+00:00"}
    assert run.created_at == "2026-01-02T00:00:01+00:00"
    assert (run.environment["cpu"], run.environment["jax"]) == ("c", "0.10.2")


def test_directions_are_the_benchmark_s_own_and_rates_rise():
    """ASV has one direction for everything; a unit per second and a word of the suite say better."""
    directions = {case.id: one.direction for case in read().cases for one in case.metrics.values()}
    assert directions["suite.time_sum"] is Direction.LOWER
    assert directions["suite.track_rate"] is Direction.HIGHER
    told = BENCHMARKS | {"suite.S.track_ms": BENCHMARKS["suite.S.track_ms"] | {"direction": "higher"}}
    (case,) = [case for case in read(benchmarks=told).cases if case.id == "suite.S.track_ms('a', 1)"]
    assert case.metrics["value"].direction is Direction.HIGHER


def test_a_result_of_another_version_is_another_series():
    """ASV leaves it out of the graph; here it keeps its history, and no other continues it."""
    told = BENCHMARKS | {"suite.track_rate": BENCHMARKS["suite.track_rate"] | {"version": "2"}}
    assert "suite.track_rate#1" in {case.id for case in read(benchmarks=told).cases}


def test_a_result_file_alone_is_enough():
    """Types are told by names as asv tells them; parameters are counted."""
    (run,) = asv_read.read(documents(benchmarks=None, machine=None), TOLD)
    cases = {case.id: case for case in run.cases}
    assert cases["suite.time_sum"].metrics["time_s"].unit == "s"
    assert cases["suite.S.track_ms('a', 1)"].spec["params"] == {"param1": "'a'", "param2": "1"}


def same(texts):
    """Return JSON texts in one spelling: NaN is not equal to itself, and 3 is 3.0."""
    return {name: json.dumps(json.loads(text, parse_int=float), sort_keys=True) for name, text in texts.items()}


def test_a_folder_is_the_same_after_a_round_through_run_json():
    """Results, their statistics, profiles and marks; the machine; the benchmarks but for their code."""
    run = codec.loads(codec.dumps(read()))
    written = {one.name: one.text for one in asv_write.write([run])}
    name = "m/aaaaaaaa-virtualenv-py3.11-jax0.10.2.json"
    expected = {name: RESULT, "m/machine.json": MACHINE, "benchmarks.json": BENCHMARKS}
    assert same(written) == same({key: json.dumps(data) for key, data in expected.items()})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 1}, r"r/m/aaaaaaaa-env.json: version is 1; layout 2 is read. Run `asv update`"),
        ({"version": 3}, "Write it with an older asv"),
        ({"commit_hash": None}, "commit_hash is missing, which is not text"),
        ({"date": "today"}, "date is 'today', which is not a number"),
        ({"results": {"a.track_x": [[1.0, 2.0], []]}}, r"result has 2 entries for 1 combinations"),
        ({"results": {"a.track_x": [["fast"], []]}}, r"is 'fast', which is not a number"),
        ({"results": {"a.track_x": [[True], []]}}, r"is True, which is not a number"),
        ({"results": {"a.track_x": [[float("inf")], []]}}, "is inf; records hold finite numbers only"),
        ({"results": {"a.track_x": 1}}, "results.a.track_x is 1, which is not an array"),
        ({"results": {"suite.S.track_ms": [[1.0, 2.0], [["1", "2"]], "2"]}}, "has 1 axes, and benchmarks.json 2 names"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change, told):
    """File, key, and what to do."""
    with pytest.raises(FormatError, match=told):
        read(result=RESULT | change)


@pytest.mark.parametrize("direction", [["lower"], {"a": 1}, 5, "up"])
def test_a_direction_of_any_kind_is_told_with_its_place(direction):
    """What a benchmark says of itself is text of somebody's suite."""
    wrong = {"suite.time_sum": BENCHMARKS["suite.time_sum"] | {"direction": direction}}
    with pytest.raises(FormatError, match=r"suite\.time_sum\.direction is .*one of"):
        read(benchmarks=BENCHMARKS | wrong)


def test_a_folder_without_results_is_refused():
    """benchmarks.json alone says nothing of a measurement."""
    with pytest.raises(FormatError, match="no result of asv among these files"):
        asv_read.read(documents(result=None), TOLD)


def a_run(**more):
    metrics = {
        "tpot_s": metric("tpot_s", 0.2, samples=(0.1, 0.3)),
        "decode_tokens_per_s": metric("decode_tokens_per_s", 5.0),
    }
    cases = (CaseRecord(id="m/cached", spec={}, metrics=metrics), CaseRecord(id="m/x", spec={}, status=Status.FAILED))
    environment = {"cpu_model": "Fast (R) CPU", "cores": 2, "python": "3.11.7", "jax": "0.10.2"}
    told = {"id": "r", "created_at": "2026-01-03T00:00:00+00:00", "suite": "s", "environment": environment}
    commit = {"sha": "b" * 40, "committed_at": "2026-01-01T00:00:00+00:00"}
    return RunRecord(**(told | {"cases": cases, "commit": commit} | more))


def test_a_run_of_ours_becomes_a_benchmark_a_metric():
    """Cases are parameters; what rises when it improves is named so that asv's finder can be kept away."""
    written = {one.name: json.loads(one.text) for one in asv_write.write([a_run()])}
    (name,) = [one for one in written if one.startswith("fast-r-cpu-2/b")]
    results = {key: dict(zip(COLUMNS, cells, strict=False)) for key, cells in written[name]["results"].items()}
    assert results["qwenperf.track_tpot_s"]["result"] == [0.2, None]
    assert results["qwenperf.track_tpot_s"]["params"] == [["'m/cached'", "'m/x'"]]
    assert "qwenperf.track_shown_decode_tokens_per_s" in results
    assert written["benchmarks.json"]["qwenperf.track_shown_decode_tokens_per_s"]["direction"] == "higher"
    with pytest.raises(FormatError, match="says no commit"):
        asv_write.write([a_run(commit={})])
    with pytest.raises(FormatError, match=r"no time of its commit.*Say --committed-at TIME too"):
        asv_write.write([a_run(commit={"sha": "b" * 40})])
    with pytest.raises(FormatError, match="two runs of commit bbbbbbbb in one environment"):
        asv_write.write([a_run(), a_run()])


SUITE = '''
import time

class Suite:
    """Each kind of result that asv has."""
    repeat, number, rounds, warmup_time = 5, 1, 1, 0

    def time_sum(self):
        sum(range(100))

    def track_size(self, name):
        if name == "fails":
            raise ValueError(name)
        return 1.5

    def setup(self, name="plain"):
        if name == "skipped":
            raise NotImplementedError(name)

    track_size.params, track_size.param_names, track_size.unit = [["plain", "skipped", "fails"]], ["name"], "ms"
    track_size.version = "1"
'''


def asv(folder, *words):
    """Run asv in ``folder``, which is its home too: it keeps a list of machines there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASV_")}
    command = (sys.executable, "-m", "asv", *words)
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, env=kept | {"HOME": str(folder)}
    )
    assert done.returncode in {0, 2}, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A repository with a suite that asv has really run in this environment."""
    folder = tmp_path_factory.mktemp("asv")
    conf = {
        "version": 1, "project": "x", "repo": ".", "dvcs": "git", "branches": ["HEAD"], "env_dir": "env",
        "environment_type": "virtualenv", "benchmark_dir": "benchmarks", "results_dir": "results", "html_dir": "html",
    }  # fmt: skip
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "suite.py").write_text(SUITE)
    (folder / "asv.conf.json").write_text(json.dumps(conf))
    (folder / ".asv-machine.json").write_text(json.dumps({"m": MACHINE, "version": 1}))
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q", "-b", "trunk"), ("add", "benchmarks"), (*identity, "commit", "-qm", "x")):
        subprocess.run(("git", *words), cwd=folder, check=True)
    where = ("--environment", "existing:same", "--set-commit-hash", "HEAD", "--machine", "m")
    asv(folder, "run", *where, "--record-samples", "--show-stderr")
    return folder


def files_of(folder):
    files = sorted(folder.rglob("*.json"))
    return [Document(name=str(file.relative_to(folder)), text=file.read_text()) for file in files]


@pytest.mark.slow
def test_what_asv_measures_now_is_read(measured):
    """Times with their readings, a number, a skip and a failure, all at the commit."""
    (run,) = asv_read.read(files_of(measured / "results"), TOLD)
    cases = {case.id: case for case in run.cases}
    assert len(cases["suite.Suite.time_sum"].metrics["time_s"].samples) == 5
    assert cases["suite.Suite.track_size('plain')"].metrics["value"].value == 1.5
    assert cases["suite.Suite.track_size('skipped')"].findings[0].code == "asv-skipped"
    assert cases["suite.Suite.track_size('fails')"].status is Status.FAILED
    head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=measured, check=True, capture_output=True, text=True)
    assert run.commit["sha"] == head.stdout.strip()


@pytest.mark.slow
def test_asv_publishes_what_we_write_as_what_it_wrote(measured):
    """After a round through run.json the files say the same, and the same graphs are made of them."""
    theirs = {one.name: one.text for one in files_of(measured / "results")}
    (run,) = asv_read.read(files_of(measured / "results"), TOLD)
    written = {one.name: one.text for one in asv_write.write([codec.loads(codec.dumps(run))])}
    benchmarks = json.loads(theirs["benchmarks.json"])
    for one in benchmarks.values():
        if isinstance(one, dict):
            one.pop("code")
    assert same(written) == same(theirs | {"benchmarks.json": json.dumps(benchmarks)})
    asv(measured, "publish")
    before = graphs(measured)
    for name, text in written.items():
        (measured / "results" / name).write_text(text)
    asv(measured, "publish")
    assert before == graphs(measured)
    assert before


def graphs(folder: Path) -> dict[str, str]:
    """Return what asv draws."""
    files = (folder / "html" / "graphs").rglob("*.json")
    return {str(file.relative_to(folder)): file.read_text() for file in files}


def test_what_a_file_alone_does_not_say_is_a_fact():
    """A number of no known unit may rise or fall: no alarm is made of it, but for what is named so that it rises."""
    named = {"a.track_x": [[1.0], []], "a.track_shown_rate": [[1.0], []], "a.time_x": [[1.0], []]}
    run = read(result=RESULT | {"results": named}, benchmarks=None)
    directions = {case.id: one.direction for case in run.cases for one in case.metrics.values()}
    expected = {"a.track_x": Direction.NONE, "a.track_shown_rate": Direction.HIGHER, "a.time_x": Direction.LOWER}
    assert directions == expected


@pytest.fixture
def elsewhere(monkeypatch):
    """Local time is not UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_time_without_a_zone_is_in_utc_wherever_it_is_written():
    """And what is no time is told with its key."""
    commit = {"sha": "b" * 40, "committed_at": "2026-01-01T00:00:00"}
    written = {one.name: json.loads(one.text) for one in asv_write.write([a_run(commit=commit)])}
    assert [one["date"] for one in written.values() if "date" in one] == [1767225600000]
    for bad in ("yesterday", "0001-01-01T00:00:00+23:00"):
        with pytest.raises(FormatError, match=r"run r: commit\.committed_at is .*, which is no time"):
            asv_write.write([a_run(commit=commit | {"committed_at": bad})])
