"""Runs as they lie in stores: records of a day each, in folders, with a trace."""

import dataclasses
from datetime import UTC, datetime, timedelta

from qwenperf.schema.codec import dumps
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Evidence, Metric, Roofline, RunRecord, metric
from qwenperf.store.base import Added, Source
from qwenperf.store.directory import open_store

CASE = "4x128/cached/b1"
MACHINE = {"platform": "cpu", "machine": "x86_64", "cores": 2, "cpu_model": "one", "jax": "0.10.2"}
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def run_of(day=0, *, value=0.01, case=CASE, metrics=None, commit=None, environment=None, **changes):
    """A run of one case, measured ``day`` days after the start at a commit of the same day."""
    at = (START + timedelta(days=day)).isoformat()
    seen = metrics or {
        "tpot_s": metric(
            "tpot_s", value, samples=(value, value, value), interval=(0.9 * value, 1.1 * value), coverage=0.75
        ),
        "peak_bytes": metric("peak_bytes", 1000 + day),
    }
    sha = f"{day:040x}"
    run = RunRecord(
        id=f"run-{day:04}",
        created_at=at,
        suite="smoke",
        environment=MACHINE if environment is None else environment,
        commit={"sha": sha, "branch": "main", "committed_at": at, "dirty": False} if commit is None else commit,
        declared=(case,),
        cases=(
            CaseRecord(
                id=case,
                spec={"engine": "cached"},
                metrics=seen,
                evidence=Evidence(roofline=Roofline(bytes_per_s=2e10, flops_per_s=1e11)),
                trace=f"plugins/profile/{day}",
            ),
        ),
    )
    return dataclasses.replace(run, **changes)


def source_of(run, files=None):
    """A run as something to add."""
    return Source(record=run, data=dumps(run).encode(), files=files or {})


def write_run(folder, run, session="s"):
    """Write a run as ``qwenperf run`` leaves it."""
    place = folder / run.id
    trace = place / "plugins" / "profile" / session
    trace.mkdir(parents=True)
    (trace / "host.xplane.pb").write_bytes(b"trace of " + run.id.encode())
    (place / "cases").mkdir()
    (place / "cases" / "s.json").write_text("{}")
    (place / "run.json").write_text(dumps(run))
    return place


def foreign(value, unit="ms"):
    """A metric of another tool, which no registry knows."""
    return Metric(value=value, unit=unit, direction=Direction.LOWER, kind=Kind.TIMED)


def filled(url, runs):
    """A store at ``url`` into which ``runs`` were put."""
    store = open_store(url)
    assert {store.add(source_of(run)) for run in runs} == {Added.ADDED}
    return store


def values(series):
    """The values of a series."""
    return [point.value for point in series.points]
