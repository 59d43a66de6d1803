"""pytest-benchmark's JSON (``--benchmark-json``, ``--benchmark-save``), in and out.

A case is a test by its ``fullname``; each number of ``stats`` is a metric of it. What a gate of ours put into
``extra_info`` is read as the metrics that it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import Told, make_run, metric, moment_at, source_of
from qwenperf.formats.place import Document, Place, parse, to_text
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, Status

TOOL = "pytest-benchmark"
ADVICE = "Give a file that pytest wrote with --benchmark-json or --benchmark-save."

_LOW, _HIGH, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

STATS: Mapping[str, tuple[str, str, Direction]] = {
    **{key: (f"{key}_s", "s", _LOW) for key in ("median", "min", "max", "mean", "q1", "q3", "ld15iqr", "hd15iqr")},
    **{key: (f"{key}_s", "s", _NONE) for key in ("stddev", "iqr", "total")},
    "ops": ("ops_per_s", "1/s", _HIGH),
    **{key: (key, "count", _NONE) for key in ("rounds", "iterations", "iqr_outliers", "stddev_outliers")},
}
"""By key of ``stats``, the metric it becomes: name, unit, direction. Those of spread are neither good nor bad."""

MAIN = "median"
"""The statistic that the readings in ``stats.data`` belong to."""

_OURS = "qwenperf"
_NO_COMMIT = {"unversioned", "unknown"}
_NO_BRANCH = {"(unknown)", "(detached head)"}


def looks(document: Document, data: Any) -> bool:  # noqa: ARG001  (the signature of all formats)
    """Say whether this is what pytest-benchmark writes."""
    return isinstance(data, dict) and isinstance(data.get("benchmarks"), list) and "machine_info" in data


def read(documents: Sequence[Document], told: Told) -> tuple[RunRecord, ...]:
    """Return a run a file.

    Raises:
      FormatError: a key is missing or of another type, or a number is not finite.
    """
    return tuple(_run(parse(document, ADVICE), told) for document in documents)


def _run(place: Place, told: Told) -> RunRecord:
    stated = place.object()
    when = place.maybe("datetime")
    machine = place.maybe("machine_info")
    commit = place.maybe("commit_info")
    kept = {key: value for key, value in stated.items() if key not in {"benchmarks", "datetime"}}
    return make_run(
        told,
        tool=TOOL,
        place=place,
        created_at="" if when is None else moment_at(when),
        commit={} if commit is None else _commit(commit),
        environment={} if machine is None else _environment(machine),
        cases=[_case(one) for one in place.at("benchmarks").entries()],
        source={**kept, "datetime": None if when is None else when.value},
    )


def _commit(place: Place) -> dict[str, Any]:
    """Return the commit in our words; pytest-benchmark has words for having none."""
    known = {key: place.maybe(key) for key in ("id", "branch", "time", "dirty")}
    said: dict[str, Any] = {}
    if (sha := known["id"]) is not None and sha.text() not in _NO_COMMIT:
        said["sha"] = sha.text()
    if (branch := known["branch"]) is not None and branch.text() not in _NO_BRANCH:
        said["branch"] = branch.text()
    if (time := known["time"]) is not None:
        said["committed_at"] = moment_at(time)
    if (dirty := known["dirty"]) is not None and "sha" in said:
        said["dirty"] = dirty.flag()
    return said


def _environment(place: Place) -> dict[str, Any]:
    """Return what is stable of a machine: its name and its clock of the moment are kept as volatile."""
    stated = dict(place.object())
    volatile: dict[str, Any] = {"node": stated.pop("node", None)}
    cpu = stated.get("cpu")
    if isinstance(cpu, dict):
        volatile["cpu"] = {key: value for key, value in cpu.items() if key.startswith("hz_actual")}
        stated["cpu"] = {key: value for key, value in cpu.items() if not key.startswith("hz_actual")}
    return {**stated, "volatile": volatile}


def _case(place: Place) -> CaseRecord:
    stats = place.at("stats")
    metrics = {}
    for key, (name, unit, direction) in STATS.items():
        value = stats.maybe(key)
        if value is not None:
            kind = Kind.DETERMINISTIC if unit == "count" else Kind.TIMED
            metrics[name] = metric(name, value.number(), unit=unit, direction=direction, kind=kind)
    main = STATS[MAIN][0]
    if main not in metrics:
        raise stats.child(MAIN, None).fail("is missing")
    if (data := stats.maybe("data")) is not None:
        readings = tuple(one.number() for one in data.entries())
        metrics[main] = metric(main, metrics[main].value, unit="s", direction=_LOW, samples=readings)
    if "ops_per_s" not in metrics and (mean := metrics.get("mean_s")) is not None and mean.value > 0:
        metrics["ops_per_s"] = metric("ops_per_s", 1 / mean.value, unit="1/s", direction=_HIGH)
    extra = place.maybe("extra_info")
    ours = None if extra is None else extra.maybe(_OURS)
    kept = {key: value for key, value in place.object().items() if key != "stats"}
    others = {key: one.free() for key, one in stats.items() if key not in STATS and key != "data"}
    return CaseRecord(
        id=place.at("fullname").text(),
        spec={"test": place.at("name").text(), "params": _free(place.maybe("params")), "of": _id_of(ours)},
        metrics={**metrics, **({} if ours is None else _our_metrics(ours))},
        extra={TOOL: Place(value={**kept, "stats": others}, path="", source="").free()},
    )


def _our_metrics(place: Place) -> dict[str, Metric]:
    """Return the metrics of a case of ours that were put into ``extra_info``."""
    stated = place.maybe("metrics")
    found = {}
    for name, one in () if stated is None else stated.items():
        unit, direction = one.maybe("unit"), one.maybe("direction")
        # A list of them: what the file has there may have no hash.
        if direction is not None and direction.value not in list(Direction):
            raise direction.wrong(f"one of {', '.join(Direction)}")
        found[name] = metric(
            name,
            one.at("value").number(),
            unit="" if unit is None else unit.text(),
            direction=_NONE if direction is None else Direction(direction.value),
        )
    return found


def _id_of(ours: Place | None) -> Any:
    return None if ours is None else _free(ours.maybe("id"))


def _free(place: Place | None) -> Any:
    return None if place is None else place.free()


def write(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return one file of the only run.

    Raises:
      FormatError: several runs, or a case without a time.
    """
    if len(runs) != 1:
        raise FormatError(f"pytest-benchmark's JSON holds one run, not {len(runs)}.", advice="Convert them one by one.")
    (run,) = runs
    source = source_of(run, TOOL)
    cases = [_written(case) for case in run.cases if case.status is Status.MEASURED]
    commit = {
        "id": run.commit.get("sha") or "unversioned",
        "time": run.commit.get("committed_at"),
        "author_time": None,
        "dirty": bool(run.commit.get("dirty")),
        "project": run.suite,
        "branch": run.commit.get("branch") or "(unknown)",
    }
    data = {
        "machine_info": source.get("machine_info", {key: run.environment.get(key) for key in ("machine", "system")}),
        "commit_info": source.get("commit_info", commit),
        "benchmarks": cases,
        "datetime": source.get("datetime") or run.created_at,
        "version": source.get("version", "5.1.0"),
    }
    known = {key: value for key, value in source.items() if key != "format" and key not in data}
    return (Document(name="", text=to_text({**data, **known}, indent=4)),)


def _written(case: CaseRecord) -> dict[str, Any]:
    kept = case.extra.get(TOOL, {})
    values = {key: _number(case.metrics[name]) for key, (name, *_) in STATS.items() if name in case.metrics}
    main = case.metrics.get(STATS[MAIN][0]) or _main_of_ours(case)
    stats = {**_spread(main), **values, **kept.get("stats", {})}
    if main.samples:
        stats["data"] = list(main.samples)
    fields: dict[str, Any] = {
        "group": None,
        "name": case.id,
        "fullname": case.id,
        "params": None,
        "param": None,
        "options": {},
    }
    extra = {"extra_info": {_OURS: {"id": case.id, "metrics": _told(case)}}} if not kept else {}
    return {**fields, **extra, **{key: value for key, value in kept.items() if key != "stats"}, "stats": stats}


def _number(one: Metric) -> float:
    return int(one.value) if one.unit == "count" else one.value


def _told(case: CaseRecord) -> dict[str, Any]:
    return {
        name: {"value": one.value, "unit": one.unit, "direction": str(one.direction)}
        for name, one in case.metrics.items()
    }


def _main_of_ours(case: CaseRecord) -> Metric:
    """Return the time that stands for a case that pytest-benchmark never saw: the first in seconds, readings first."""
    times = [one for one in case.metrics.values() if one.unit == "s"]
    if not times:
        raise FormatError(f"{case.id} has no time in seconds.", advice="pytest-benchmark's JSON holds times.")
    return max(times, key=lambda one: bool(one.samples))


def _spread(main: Metric) -> dict[str, Any]:
    """Return the statistics of a case that came from elsewhere, from its readings; one reading has no spread."""
    readings = sorted(main.samples or (main.value,))
    q1, _, q3 = statistics.quantiles(readings, method="inclusive") if len(readings) > 1 else readings * 3
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    inside = [one for one in readings if low <= one <= high]
    mean, deviation = statistics.fmean(readings), statistics.stdev(readings) if len(readings) > 1 else 0.0
    far = sum(abs(one - mean) > deviation for one in readings)
    return {
        "min": readings[0], "max": readings[-1], "mean": mean, "stddev": deviation, "rounds": len(readings),
        "median": main.value, "iqr": q3 - q1, "q1": q1, "q3": q3, "iqr_outliers": len(readings) - len(inside),
        "stddev_outliers": far, "outliers": f"{far};{len(readings) - len(inside)}", "ld15iqr": inside[0],
        "hd15iqr": inside[-1], "ops": 1 / mean if mean > 0 else 0, "total": sum(readings), "iterations": 1,
    }  # fmt: skip
