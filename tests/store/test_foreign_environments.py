"""Runs of other tools are of one environment where their tool says so, and of two where it tells them apart."""

import json

import pytest

from qwenperf.formats import asv_read, pytest_benchmark
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.gate.differences import environment_key
from qwenperf.store.rows import rows_of

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
CPU = {"brand_raw": "one", "count": 2, "hz_advertised_friendly": "2.4 GHz", "hz_actual": [2_400_000_000, 0]}
MACHINE = {
    "node": "runner-1", "processor": "x86_64", "machine": "x86_64", "python_version": "3.11.7", "release": "6.1",
    "system": "Linux", "cpu": CPU,
}  # fmt: skip
PARAMS = {"machine": "lab", "python": "3.11", "numpy": "1.26", "cpu": "one", "os": "Linux 6.1", "ram": "16000000"}


def of_pytest(**changes):
    """The environment that a file of pytest-benchmark is of."""
    bench = {"fullname": "t.py::test_a", "name": "test_a", "stats": {"median": 0.5, "mean": 0.5}}
    data = {"machine_info": MACHINE | changes, "benchmarks": [bench], "datetime": "2026-01-01T00:00:00"}
    (run,) = pytest_benchmark.read([Document(name="out.json", text=json.dumps(data))], TOLD)
    return rows_of(run, "folder").run.environment


def of_asv(requirements="1.26", variables=None, **changes):
    """The environment that a result file of asv is of."""
    result = {
        "commit_hash": "a" * 40, "env_name": "e", "date": 1767225600000, "version": 2,
        "python": changes.get("python", "3.11"),
        "params": PARAMS | {"numpy": requirements} | changes, "requirements": {"numpy": requirements},
        "env_vars": variables or {}, "result_columns": ["result", "params"], "results": {"b.track_a": [[1.0], []]},
    }  # fmt: skip
    (run,) = asv_read.read([Document(name="r/lab/a.json", text=json.dumps(result))], TOLD)
    return rows_of(run, "folder").run.environment


@pytest.mark.parametrize(
    "change",
    [{"cpu": CPU | {"brand_raw": "other"}}, {"python_version": "3.12.1"}, {"processor": "other"}, {"release": "6.8"}],
)
def test_machines_that_pytest_benchmark_tells_apart_are_two(change):
    """Although both are called x86_64."""
    assert of_pytest(**change) != of_pytest() != ""


@pytest.mark.parametrize(
    "change",
    [{"node": "runner-2"}, {"cpu": CPU | {"hz_advertised_friendly": "3.1 GHz", "hz_actual": [3_100_000_000, 0]}}],
)
def test_a_clock_or_a_name_of_a_host_makes_no_other_machine(change):
    """A runner is made for a job, and its clock is that of the moment."""
    assert of_pytest(**change) == of_pytest()


@pytest.mark.parametrize(
    "change",
    [{"requirements": "2.0"}, {"variables": {"OMP_NUM_THREADS": "1"}}, {"machine": "other"}, {"python": "3.12"}],
)
def test_environments_of_a_matrix_of_asv_are_two(change):
    """By any package and any variable of it, whether or not we have a word for that."""
    assert of_asv(**change) != of_asv() != ""
    assert of_asv(ram="15999992") == of_asv()


def test_our_own_runs_are_what_they_were(made):
    """What is told besides does not count, whatever it is called."""
    run = made.run_of(0, environment=made.MACHINE | {"ram": "16", "memory_bytes": 7})
    assert rows_of(run, "folder").run.environment == environment_key(made.MACHINE)
