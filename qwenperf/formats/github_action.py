"""github-action-benchmark: its dashboard ``data.js`` and the arrays of its two custom tools, in and out.

In a dashboard each entry is a run: a suite at a commit, whose tool says which way its numbers improve. An array says
neither commit nor direction, so that its direction is in the format's name.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.foreign import Told, make_run, metric, moment_at, moment_of_ms, ms_of, source_of
from qwenperf.formats.place import Document, Place, parse, to_text
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Finding, RunRecord, Severity, Status

DASHBOARD = "github-action"
SMALLER = "github-action-smaller"
BIGGER = "github-action-bigger"
PREFIX = "window.BENCHMARK_DATA = "
ADVICE = "Give the dashboard's data.js, or the array that the action reads."

BIGGER_TOOLS = {"benchmarkjs", "pytest", "customBiggerIsBetter"}
SMALLER_TOOLS = {
    "cargo", "cargo-criterion", "go", "googlecpp", "catch2", "julia", "jmh", "benchmarkdotnet", "benchmarkluau",
    "customSmallerIsBetter",
}  # fmt: skip
"""The action's own judgement of its tools, also where a unit says otherwise."""

TOOLS = {Direction.LOWER: "customSmallerIsBetter", Direction.HIGHER: "customBiggerIsBetter"}
_BENCH = {"name", "value", "unit", "range", "extra"}
_BENCHES = "benches"
"""Key under which a case of several readings keeps them as they were."""


def looks_dashboard(document: Document, data: Any) -> bool:
    """Say whether this is a ``data.js``, or the JSON in it."""
    return document.text.lstrip().startswith("window.BENCHMARK_DATA") or (
        isinstance(data, dict) and isinstance(data.get("entries"), dict) and "lastUpdate" in data
    )


def looks_array(document: Document, data: Any) -> bool:  # noqa: ARG001  (the signature of all formats)
    """Say whether this is the array of a custom tool, whose direction only a person knows."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(one, dict) and "name" in one and "value" in one for one in data)
    )


def read_dashboard(documents: Sequence[Document], told: Told) -> tuple[RunRecord, ...]:
    """Return a run for each entry of each suite, in the file's order.

    Raises:
      FormatError: no dashboard, or a key that is missing or of another type.
    """
    return tuple(run for document in documents for run in _dashboard(document, told))


def _dashboard(document: Document, told: Told) -> Iterator[RunRecord]:
    text = document.text.strip()
    start = text.find("=") + 1 if text.startswith("window.BENCHMARK_DATA") else 0
    place = parse(Document(name=document.name, text=text[start:].strip().removesuffix(";")), ADVICE)
    repository = place.maybe("repoUrl")
    for suite, entries in place.at("entries").items():
        for entry in entries.entries():
            yield _entry(suite, entry, "" if repository is None else repository.text(), told)


def _entry(suite: str, place: Place, repository: str, told: Told) -> RunRecord:
    tool = place.at("tool").text()
    direction = _direction(tool)
    commit = place.at("commit")
    said = {"sha": commit.at("id").text()}
    if (time := commit.maybe("timestamp")) is not None:
        said["committed_at"] = moment_at(time)
    return make_run(
        told,
        tool=DASHBOARD,
        place=place,
        created_at=moment_of_ms(place.at("date")),
        commit=said,
        suite=suite,
        cases=_cases(place.at("benches"), direction, f"{suite}/"),
        findings=(_unknown(tool),) if direction is Direction.NONE else (),
        source={
            "tool": tool,
            "commit": commit.value,
            "date": place.at("date").value,
            "repository": repository,
            "entry": {
                key: value for key, value in place.object().items() if key not in {"commit", "date", "tool", "benches"}
            },
        },
    )


def _direction(tool: str) -> Direction:
    known = {**dict.fromkeys(BIGGER_TOOLS, Direction.HIGHER), **dict.fromkeys(SMALLER_TOOLS, Direction.LOWER)}
    return known.get(tool, Direction.NONE)


def _unknown(tool: str) -> Finding:
    return Finding(
        code="direction-unknown",
        severity=Severity.WARNING,
        message=f"nobody here knows whether the numbers of the tool {tool!r} improve upwards or downwards.",
        advice=f"They are kept as facts. Known tools: {', '.join(sorted(BIGGER_TOOLS | SMALLER_TOOLS))}.",
    )


def _cases(place: Place, direction: Direction, prefix: str = "") -> list[CaseRecord]:
    """Return the benches at ``place``; those of one name are readings of one case, such as ``go test -count 5`` makes.

    ``prefix`` is of their names: two suites of a dashboard may have benches of one name, and they are two cases.
    """
    by_name: dict[str, list[Place]] = {}
    for one in place.entries():
        by_name.setdefault(one.at("name").text(), []).append(one)
    return [_readings(places, direction, f"{prefix}{name}") for name, places in by_name.items()]


def _readings(places: Sequence[Place], direction: Direction, case: str) -> CaseRecord:
    every = [_case(place, direction, case) for place in places]
    if len(every) == 1:
        return every[0]
    metrics = [one.metrics["value"] for one in every]
    units = dict.fromkeys(one.unit for one in metrics)
    if len(units) > 1:
        raise places[1].fail(f"has another unit than the first {case!r}: {' and '.join(map(repr, units))}")
    samples = tuple(one.value for one in metrics)
    value = replace(metrics[0], value=statistics.median(samples), samples=samples, extra={})
    return replace(every[0], metrics={"value": value}, extra={_BENCHES: [place.free() for place in places]})


def _case(place: Place, direction: Direction, case: str) -> CaseRecord:
    """Return one bench. Its ``range`` is words for people ("± 3", "stddev: 0.1"), and stays words."""
    unit, words = place.maybe("unit"), {key: place.maybe(key) for key in ("range", "extra")}
    kept = {key: one.text() for key, one in words.items() if one is not None}
    kept |= {key: one.free() for key, one in place.items() if key not in _BENCH}
    value = metric(
        "value",
        _value(place.at("value")),
        unit="" if unit is None else unit.text(),
        direction=direction,
        extra={DASHBOARD: kept} if kept else {},
    )
    return CaseRecord(id=case, spec={"name": place.at("name").text()}, metrics={"value": value})


def _value(place: Place) -> float:
    """Return a number; dashboards in the wild also hold numbers written as text."""
    if isinstance(place.value, str):
        try:
            return Place(value=float(place.value), path=place.path, source=place.source, advice=place.advice).number()
        except ValueError:
            raise place.wrong("a number") from None
    return place.number()


def _read_array(documents: Sequence[Document], told: Told, direction: Direction, tool: str) -> tuple[RunRecord, ...]:
    runs = []
    for document in documents:
        place = parse(document, ADVICE)
        cases = _cases(place, direction)
        runs.append(make_run(told, tool=tool, place=place, cases=cases))
    return tuple(runs)


read_smaller: Callable[[Sequence[Document], Told], tuple[RunRecord, ...]] = partial(
    _read_array, direction=Direction.LOWER, tool=SMALLER
)
read_bigger: Callable[[Sequence[Document], Told], tuple[RunRecord, ...]] = partial(
    _read_array, direction=Direction.HIGHER, tool=BIGGER
)


def write_dashboard(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return one ``data.js`` of all runs. A run with both directions becomes two entries, a suite for each.

    Raises:
      FormatError: a run says no commit.
    """
    entries: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for suite, tool, benches in _suites(run):
            entries.setdefault(suite, []).append(_written(run, tool, benches))
    last = max((ms_of(run) for run in runs), default=0)
    repository = next((one for run in runs if (one := source_of(run, DASHBOARD).get("repository"))), "")
    data = {"lastUpdate": last, "repoUrl": repository, "entries": entries}
    return (Document(name="", text=PREFIX + to_text(data, indent=2)),)


def _suites(run: RunRecord) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield suite, tool and benches: as they were where the run came from a dashboard, by direction otherwise."""
    if source := source_of(run, DASHBOARD):
        yield run.suite, source["tool"], [one for direction in Direction for one in _benches(run, direction)]
        return
    found = {direction: list(_benches(run, direction)) for direction in TOOLS}
    both = all(found.values())
    for direction, benches in found.items():
        if benches:
            yield f"{run.suite} ({direction} is better)" if both else run.suite, TOOLS[direction], benches


def _written(run: RunRecord, tool: str, benches: list[dict[str, Any]]) -> dict[str, Any]:
    source = source_of(run, DASHBOARD)
    if not source and not run.commit.get("sha"):
        raise FormatError(
            f"run {run.id} says no commit; a dashboard is by commit.", advice="Say --commit when reading."
        )
    nobody = {"name": "", "username": ""}
    commit = {
        "author": nobody,
        "committer": nobody,
        "id": run.commit.get("sha"),
        "message": "",
        "timestamp": run.commit.get("committed_at") or run.created_at,
        "url": "",
    }
    return {
        "commit": source.get("commit", commit),
        "date": source.get("date", ms_of(run)),
        "tool": tool,
        "benches": benches,
        **source.get("entry", {}),
    }


def _benches(run: RunRecord, direction: Direction) -> Iterator[dict[str, Any]]:
    """Yield what improves in one direction; ``value`` is the only metric of what came from the action."""
    for case in run.cases:
        if case.status is Status.MEASURED:
            several = case.extra.get(_BENCHES) if case.metrics.keys() == {"value"} else None
            if several is not None:
                yield from several if case.metrics["value"].direction is direction else ()
                continue
            for name, one in case.metrics.items():
                if one.direction is direction:
                    own = case.spec["name"] if source_of(run, DASHBOARD) else case.id
                    label = own if name == "value" else f"{own} {name}"
                    known: Mapping[str, Any] = (
                        {} if one.interval is None else {"range": _range(one.value, one.interval)}
                    )
                    yield {"name": label, "value": one.value, "unit": one.unit, **known, **one.extra.get(DASHBOARD, {})}


def _range(value: float, interval: tuple[float, float]) -> str:
    return f"± {max(value - interval[0], interval[1] - value):.6g}"


def _write_array(runs: Sequence[RunRecord], direction: Direction) -> tuple[Document, ...]:
    if len(runs) != 1:
        raise FormatError(f"the action's array holds one run, not {len(runs)}.", advice="Convert them one by one.")
    benches = list(_benches(runs[0], direction))
    if not benches:
        other = "bigger" if direction is Direction.LOWER else "smaller"
        raise FormatError(
            f"run {runs[0].id} has no metric of which {direction} is better.", advice=f"Is github-action-{other} meant?"
        )
    return (Document(name="", text=to_text(benches, indent=2)),)


write_smaller: Callable[[Sequence[RunRecord]], tuple[Document, ...]] = partial(_write_array, direction=Direction.LOWER)
write_bigger: Callable[[Sequence[RunRecord]], tuple[Document, ...]] = partial(_write_array, direction=Direction.HIGHER)
