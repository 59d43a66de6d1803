"""Bencher Metric Format (BMF): ``{benchmark: {measure: {value, lower_value, upper_value}}}``, in and out.

The format says no unit and no direction. Those of Bencher's own measures and of our registry are known; any other
measure is kept as a fact that is neither good nor bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import Told, make_run, metric
from qwenperf.formats.place import Document, Place, parse, to_text
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, Status

TOOL = "bencher"
ADVICE = "Give JSON in Bencher Metric Format: {benchmark: {measure: {value, lower_value, upper_value}}}."
IGNORE = "-bencher-ignore"
"""A suffix by which a benchmark asks Bencher for no alerts; it is no part of its name there."""

_LOW, _HIGH = Direction.LOWER, Direction.HIGHER
MEASURES: Mapping[str, tuple[str, Direction]] = {
    "latency": ("ns", _LOW),
    "throughput": ("ops/s", _HIGH),
    "build-time": ("s", _LOW),
    "file-size": ("bytes", _LOW),
}
"""Measures that Bencher makes itself and documents the units of."""

_NAME_LIMIT = 1024
_MEASURE_LIMIT = 64
_BOUNDS = ("lower_value", "upper_value")


def looks(document: Document, data: Any) -> bool:  # noqa: ARG001  (the signature of all formats)
    """Say whether this is objects in objects that hold a ``value``."""
    if not isinstance(data, dict) or not data:
        return False
    measures = [one for benchmark in data.values() if isinstance(benchmark, dict) for one in benchmark.values()]
    return (
        all(isinstance(benchmark, dict) for benchmark in data.values())
        and bool(measures)
        and all(isinstance(one, dict) and "value" in one for one in measures)
    )


def read(documents: Sequence[Document], told: Told) -> tuple[RunRecord, ...]:
    """Return a run a file.

    Raises:
      FormatError: a key is missing or of another type, or a number is not finite.
    """
    runs = []
    for document in documents:
        place = parse(document, ADVICE)
        cases = [_case(name, benchmark) for name, benchmark in place.items()]
        runs.append(make_run(told, tool=TOOL, place=place, cases=cases))
    return tuple(runs)


def _case(name: str, place: Place) -> CaseRecord:
    quiet = name.endswith(IGNORE)
    return CaseRecord(
        id=name.removesuffix(IGNORE),
        spec={"name": name},
        metrics={measure: _metric(measure, one) for measure, one in place.items()},
        extra={"no_alerts": True} if quiet else {},
    )


def _metric(measure: str, place: Place) -> Metric:
    unit, direction = MEASURES.get(measure, ("", Direction.NONE))
    low, high = (place.maybe(key) for key in _BOUNDS)
    kept = {key: one.free() for key, one in place.items() if key not in {"value", *_BOUNDS}}
    for key, one in zip(_BOUNDS, (low, high), strict=True):
        if one is not None and (low is None or high is None):
            kept[key] = one.number()
    extra = {TOOL: kept} if kept else {}
    interval = None
    if low is not None and high is not None:
        if low.number() > high.number():
            raise low.fail(f"is {low.number():g}, above upper_value {high.number():g}")
        interval = (low.number(), high.number())
    return metric(measure, place.at("value").number(), unit=unit, direction=direction, interval=interval, extra=extra)


def write(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return one file of the only run. Cases that were not measured are left out: Bencher has no word for them.

    Raises:
      FormatError: several runs, none measured, or a name that is longer than Bencher takes.
    """
    if len(runs) != 1:
        raise FormatError(f"Bencher Metric Format holds one run, not {len(runs)}.", advice="Convert them one by one.")
    (run,) = runs
    data = {
        _fit(case.id + (IGNORE if case.extra.get("no_alerts") else ""), _NAME_LIMIT): {
            _fit(name, _MEASURE_LIMIT): _written(one) for name, one in case.metrics.items()
        }
        for case in run.cases
        if case.status is Status.MEASURED and case.metrics
    }
    if not data:
        raise FormatError(f"run {run.id} has no measured case.", advice="Nothing would reach Bencher.")
    return (Document(name="", text=to_text(data, indent=2)),)


def _written(one: Metric) -> dict[str, Any]:
    bounds = {} if one.interval is None else dict(zip(_BOUNDS, one.interval, strict=True))
    return {"value": one.value, **bounds, **one.extra.get(TOOL, {})}


def _fit(name: str, limit: int) -> str:
    if len(name) > limit:
        raise FormatError(f"the name {name[:40]!r}... has {len(name)} characters; Bencher takes {limit}.")
    return name
