"""Results of airspeed velocity, layout 2: a folder with ``benchmarks.json`` and a folder a machine, one file a run.

A case is a benchmark with its parameters, spelled as asv spells it: ``suite.Class.track_x(a, b)``. ASV takes lower for
better everywhere; here a benchmark's own ``direction`` counts, and a rate (a unit that ends with ``/s``) rises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import Told, make_run, metric, moment_of_ms
from qwenperf.formats.place import Document, Place, parse
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Finding, Metric, Severity, Status
from qwenperf.schema.records import RunRecord as Run

TOOL = "asv"
LAYOUT = 2
ADVICE = "Give a results folder of asv, or a result file in it."

TYPES = {
    "time": ("time_s", "s"),
    "memory": ("memory_bytes", "bytes"),
    "peakmemory": ("peak_memory_bytes", "bytes"),
    "track": ("value", ""),
}
"""By type of a benchmark, the name of its metric and the unit that asv leaves to be understood."""

_PREFIXES = {"timeraw_": "time", "time_": "time", "mem_": "memory", "peakmem_": "peakmemory", "track_": "track"}
SHOWN = "shown_"
"""What rises when it improves is named ``track_shown_*`` by our writer and our suites."""

_UNITS = {"seconds": "s"}
_STATS = ("q_25", "q_75", "number", "repeat")
_PER_CASE = {"result", "samples", "stats_ci_99_a", "stats_ci_99_b", *(f"stats_{key}" for key in _STATS)}
ENDS = ("ci_99_a", "ci_99_b")
COVERAGE = 0.99
"""That of the interval that asv keeps."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What ``benchmarks.json`` says of one, or its name alone where there is no such file."""

    name: str
    type: str
    unit: str
    direction: Direction
    version: str | None
    param_names: tuple[str, ...]
    stated: Mapping[str, Any]


def looks(document: Document, data: Any) -> bool:
    """Say whether this is a file of asv's results folder."""
    if not isinstance(data, dict):
        return False
    name = PurePath(document.name).name
    return {"result_columns", "results"} <= data.keys() or (
        "version" in data and name in {"benchmarks.json", "machine.json"}
    )


def read(documents: Sequence[Document], told: Told) -> tuple[Run, ...]:
    """Return a run for each result file among ``documents``, the oldest commit first.

    Raises:
      FormatError: no result file, another layout, or a key that is missing or of another type.
    """
    places = [parse(document, ADVICE) for document in documents]
    known: dict[str, Benchmark] = {}
    machines: dict[str, Mapping[str, Any]] = {}
    for place in places:
        name = PurePath(place.source).name
        if name == "benchmarks.json":
            known |= {key: _benchmark(key, at) for key, at in _of_layout(place, LAYOUT).items() if key != "version"}
        elif name == "machine.json":
            stated = _of_layout(place, 1)
            machines[stated.at("machine").text()] = {k: v for k, v in stated.object().items() if k != "version"}
    results = [place for place in places if PurePath(place.source).name not in {"benchmarks.json", "machine.json"}]
    if not results:
        raise FormatError("there is no result of asv among these files.", advice=ADVICE)
    runs = [_run(_of_layout(place, LAYOUT), known, machines, told) for place in results]
    return tuple(sorted(runs, key=lambda run: (run.commit.get("committed_at", ""), run.created_at, run.id)))


def _of_layout(place: Place, layout: int) -> Place:
    version = place.at("version").number()
    if version != layout:
        advice = "Run `asv update` in its folder." if version < layout else "Write it with an older asv."
        raise place.at("version").fail(f"is {version:g}; layout {layout} is read", advice)
    return place


def _benchmark(name: str, place: Place) -> Benchmark:
    stated = place.object()
    kind = place.at("type").text()
    unit = place.at("unit").text() if "unit" in stated else ""
    unit = _UNITS.get(unit, unit)
    version = place.maybe("version")
    direction = place.maybe("direction")
    if direction is not None and direction.value not in list(Direction):
        raise direction.wrong(f"one of {', '.join(Direction)}")
    names = place.maybe("param_names")
    return Benchmark(
        name=name,
        type=kind,
        unit=unit,
        direction=_direction(unit) if direction is None else Direction(direction.value),
        version=None if version is None else version.text(),
        param_names=() if names is None else tuple(one.text() for one in names.entries()),
        stated={key: value for key, value in stated.items() if key != "code"},
    )


def _direction(unit: str) -> Direction:
    return Direction.HIGHER if unit.endswith("/s") else Direction.LOWER


def _unstated(name: str) -> Benchmark:
    last = name.rsplit(".", 1)[-1]
    kind = next((kind for prefix, kind in _PREFIXES.items() if last.startswith(prefix)), "track")
    unit = TYPES[kind][1]
    unknown = Direction.HIGHER if last.startswith(f"track_{SHOWN}") else Direction.NONE
    direction = unknown if kind == "track" else _direction(unit)
    return Benchmark(name=name, type=kind, unit=unit, direction=direction, version=None, param_names=(), stated={})


def _run(place: Place, known: Mapping[str, Benchmark], machines: Mapping[str, Mapping[str, Any]], told: Told) -> Run:
    columns = [one.text() for one in place.at("result_columns").entries()]
    params = place.at("params")
    machine = params.maybe("machine")
    cases: list[CaseRecord] = []
    rows: dict[str, Any] = {}
    started: list[str] = []
    for name, row in place.at("results").items():
        cells = dict(zip(columns, (one.value for one in row.entries()), strict=False))
        cells = {column: row.child(column, value) for column, value in cells.items() if value is not None}
        benchmark = known.get(name) or _unstated(name)
        rows[name] = {
            key: cells[key].free() for key in ("version", "started_at", "duration", "profile") if key in cells
        }
        rows[name]["stated"] = benchmark.stated
        if "started_at" in cells:
            started.append(moment_of_ms(cells["started_at"]))
        cases += _cases(benchmark, cells)
    written = {key: place.object().get(key) for key in ("env_name", "python", "requirements", "env_vars", "durations")}
    sha = place.at("commit_hash").text()
    stated = {} if machine is None else machines.get(machine.text(), {})
    environment = {**stated, **params.object(), **{k: written[k] for k in ("python", "requirements", "env_vars")}}
    committed_at = moment_of_ms(place.at("date"))
    return make_run(
        told,
        tool=TOOL,
        place=place,
        created_at=max(started, default=committed_at),
        commit={"sha": sha, "committed_at": committed_at},
        environment=environment,
        cases=cases,
        source={**written, "params": params.value, "machine": stated, "benchmarks": rows},
    )


def _cases(benchmark: Benchmark, cells: Mapping[str, Place]) -> Iterator[CaseRecord]:
    """Yield a case for each combination of parameters; ``None`` is a failure to asv, and NaN a skip."""
    params = [[one.text() for one in axis.entries()] for axis in cells["params"].entries()] if "params" in cells else []
    combinations = list(itertools.product(*params))
    version = cells["version"].text() if "version" in cells else None
    for index, combination in enumerate(combinations):
        names = benchmark.param_names or tuple(f"param{number}" for number in range(1, len(params) + 1))
        if len(names) != len(combination):
            raise cells["params"].fail(f"has {len(combination)} axes, and benchmarks.json {len(names)} names of them")
        case = _case_id(benchmark, combination, version)
        spec = {"benchmark": benchmark.name, "params": dict(zip(names, combination, strict=True)), "version": version}
        chosen = {column: _nth(cells[column], index, len(combinations)) for column in cells.keys() & _PER_CASE}
        value = chosen.get("result")
        if value is None or value.value is None:
            yield CaseRecord(id=case, spec=spec, status=Status.FAILED, error="the benchmark failed in asv.")
        elif isinstance(value.value, float) and math.isnan(value.value):
            yield CaseRecord(id=case, spec=spec, findings=(_skipped(),))
        else:
            name = TYPES.get(benchmark.type, TYPES["track"])[0]
            yield CaseRecord(id=case, spec=spec, metrics={name: _metric(name, benchmark, value, chosen)})


def _case_id(benchmark: Benchmark, combination: tuple[str, ...], version: str | None) -> str:
    """Name a case as asv does; a result of another version than today's belongs to another series."""
    name = f"{benchmark.name}({', '.join(combination)})" if combination else benchmark.name
    other = benchmark.version is not None and version is not None and version != benchmark.version
    return f"{name}#{version[:12]}" if other and version else name


def _metric(name: str, benchmark: Benchmark, value: Place, chosen: Mapping[str, Place]) -> Metric:
    low, high = (_finite(chosen.get(f"stats_ci_99_{side}")) for side in "ab")
    interval = None if low is None or high is None else (low, high)
    samples = chosen.get("samples")
    stats = {key: chosen[f"stats_{key}"] for key in _STATS if f"stats_{key}" in chosen}
    if interval is None:
        stats |= {key: chosen[f"stats_{key}"] for key in ENDS if f"stats_{key}" in chosen}
    kept = {key: cell.free() for key, cell in stats.items() if cell.value is not None}
    return metric(
        name,
        value.number(),
        unit=benchmark.unit or TYPES.get(benchmark.type, TYPES["track"])[1],
        direction=benchmark.direction,
        interval=interval,
        coverage=None if interval is None else COVERAGE,
        samples=tuple(one.number() for one in samples.entries()) if samples is not None and samples.value else (),
        extra={"asv": kept} if kept else {},
    )


def _nth(column: Place, index: int, of: int) -> Place:
    """Return the cell of one combination."""
    entries = column.entries()
    if len(entries) != of:
        raise column.fail(f"has {len(entries)} entries for {of} combinations of parameters")
    return entries[index]


def _finite(place: Place | None) -> float | None:
    if place is None or place.value is None or (isinstance(place.value, float) and not math.isfinite(place.value)):
        return None
    return place.number()


def _skipped() -> Finding:
    return Finding(code="asv-skipped", severity=Severity.NOTE, message="asv skipped this combination of parameters.")
