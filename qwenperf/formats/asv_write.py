"""Runs as results of airspeed velocity, layout 2: ``asv publish`` and ``asv compare`` take them for their own.

A run that came from asv is written as it was. Of any other, each metric becomes a benchmark whose parameter is the
case. ASV takes lower for better: what rises when it improves is named ``track_shown_*``, so that one line of
``asv.conf.json`` keeps its finder away from it (docs/asv.md).
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.asv_read import COVERAGE, ENDS, LAYOUT, SHOWN, TOOL, TYPES
from qwenperf.formats.foreign import ms_of, ms_of_moment, source_of
from qwenperf.formats.place import Document
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Metric, RunRecord, Status

COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip
VERSION = "1"
_PACKAGES = ("jax", "jaxlib", "libtpu")


def write(runs: Sequence[RunRecord]) -> tuple[Document, ...]:
    """Return the files of a results folder: one a run, ``machine.json`` of each machine, ``benchmarks.json``.

    Raises:
      FormatError: a run says no commit or not when that was made; two runs would be one file.
    """
    benchmarks: dict[str, Any] = {}
    files: dict[str, Any] = {}
    for run in runs:
        machine = _machine(run)
        data = _result_file(run, str(machine["machine"]), benchmarks)
        folder = _one_name(str(machine["machine"]))
        name = f"{folder}/{_one_name(data['commit_hash'][:8])}-{_one_name(str(data['env_name']))}.json"
        if name in files:
            raise FormatError(
                f"two runs of commit {data['commit_hash'][:8]} in one environment: asv keeps one.",
                advice="Convert them one after the other into folders of their own.",
            )
        files[name] = data
        files[f"{folder}/machine.json"] = {**machine, "version": 1}
    files["benchmarks.json"] = {**benchmarks, "version": LAYOUT}
    return tuple(Document(name=name, text=json.dumps(data)) for name, data in files.items())


def _machine(run: RunRecord) -> Mapping[str, Any]:
    source = source_of(run, TOOL)
    if source:
        return {**source["machine"], "machine": source["params"].get("machine", "unknown")}
    told = run.environment
    name = slug(str(told.get("machine_name") or f"{told.get('cpu_model', 'unknown')} {told.get('cores', '')}"))
    fields = {"cpu": told.get("cpu_model"), "arch": told.get("machine"), "os": told.get("system")}
    fields |= {"num_cpu": told.get("cores"), "ram": told.get("memory_bytes")}
    return {"machine": name, **{key: str(value) for key, value in fields.items() if value is not None}}


def _result_file(run: RunRecord, machine: str, benchmarks: dict[str, Any]) -> dict[str, Any]:
    source = source_of(run, TOOL)
    if source:
        own = {key: source[key] for key in ("env_name", "python", "requirements", "env_vars", "durations", "params")}
        rows = {name: _own_row(run, name, kept, benchmarks) for name, kept in source["benchmarks"].items()}
    else:
        python = str(run.environment.get("python") or "unknown")
        wanted = {name: str(run.environment[name]) for name in _PACKAGES if run.environment.get(name)}
        name = "-".join(("qwenperf", f"py{python}", *(f"{key}{value}" for key, value in wanted.items())))
        own = {"env_name": slug(name), "python": python, "requirements": wanted, "env_vars": {}, "durations": {}}
        own["params"] = {"machine": machine, "python": python, **wanted}
        rows = _rows(run, benchmarks)
    commit, date = _commit(run)
    return {
        "commit_hash": commit, "date": date, **own, "result_columns": list(COLUMNS), "results": rows, "version": LAYOUT,
    }  # fmt: skip


def _commit(run: RunRecord) -> tuple[str, int]:
    sha, date = run.commit.get("sha"), run.commit.get("committed_at")
    if not sha or not date:
        missing = {"no commit": ("--commit HASH", sha), "no time of its commit": ("--committed-at TIME", date)}
        what = " and ".join(name for name, (_, found) in missing.items() if not found)
        wanted = " and ".join(option for option, found in missing.values() if not found)
        raise FormatError(f"run {run.id} says {what}; asv keeps results by commit.", advice=f"Say {wanted} too.")
    return str(sha), ms_of_moment(str(date), f"run {run.id}: commit.committed_at")


def _own_row(run: RunRecord, name: str, kept: Mapping[str, Any], benchmarks: dict[str, Any]) -> list[Any]:
    """Return the row of a benchmark that came from asv."""
    cases = [case for case in run.cases if case.spec.get("benchmark") == name]
    if kept.get("stated"):
        benchmarks.setdefault(name, dict(kept["stated"]))
    axes: list[list[str]] = [[] for _ in (cases[0].spec["params"] if cases else ())]
    for case in cases:
        for axis, value in zip(axes, case.spec["params"].values(), strict=True):
            if value not in axis:
                axis.append(value)
    in_order = {tuple(case.spec["params"].values()): case for case in cases}
    return _row([in_order[one] for one in itertools.product(*axes)], axes, kept)


def _rows(run: RunRecord, benchmarks: dict[str, Any]) -> dict[str, list[Any]]:
    """Return rows of a run that never saw asv: one a metric, with the cases for parameters."""
    names = dict.fromkeys(name for case in run.cases for name in case.metrics)
    rows = {}
    for name in names:
        cases = [case for case in run.cases if name in case.metrics or case.status is not Status.MEASURED]
        first = next(case.metrics[name] for case in cases if name in case.metrics)
        key = f"qwenperf.{'track_' + SHOWN if first.direction is Direction.HIGHER else 'track_'}{name}"
        axis = [repr(case.id) for case in cases]
        entry = benchmarks.setdefault(key, _entry(key, first))
        entry["params"][0] += [value for value in axis if value not in entry["params"][0]]
        rows[key] = _row(cases, [axis], {"version": VERSION, "started_at": ms_of(run)}, name)
    return rows


def _entry(name: str, one: Metric) -> dict[str, Any]:
    return {
        "name": name, "type": "track", "unit": one.unit, "direction": str(one.direction), "version": VERSION,
        "param_names": ["case"], "params": [[]], "timeout": 60, "code": "",
    }  # fmt: skip


def _row(cases: list[CaseRecord], axes: list[list[str]], kept: Mapping[str, Any], name: str = "") -> list[Any]:
    metrics = [_only(case, name) for case in cases]
    columns: dict[str, Any] = {
        "result": [_value(case, one) for case, one in zip(cases, metrics, strict=True)],
        "params": axes,
        **{key: kept.get(key) for key in ("version", "started_at", "duration", "profile")},
        **{f"stats_ci_99_{side}": [_end(one, at) for one in metrics] for at, side in enumerate("ab")},
        **{f"stats_{key}": [_stat(one, key) for one in metrics] for key in ("q_25", "q_75", "number", "repeat")},
        "samples": [list(one.samples) if one is not None and one.samples else None for one in metrics],
    }
    row = [None if _all_none(columns[key]) and key != "params" else columns[key] for key in COLUMNS]
    while row and row[-1] is None:
        row.pop()
    return row


def _value(case: CaseRecord, one: Metric | None) -> float | None:
    """Return a number, or asv's own marks: NaN for what was skipped, null for a failure."""
    if one is not None:
        return one.value
    return math.nan if case.status is Status.MEASURED else None


def _only(case: CaseRecord, name: str) -> Metric | None:
    if name:
        return case.metrics.get(name)
    return next((case.metrics[key] for key, _ in TYPES.values() if key in case.metrics), None)


def _end(one: Metric | None, at: int) -> float | None:
    """Return an end of asv's interval; of too few readings it is infinite, which our records say in words."""
    if one is None or one.interval is None or one.coverage != COVERAGE:
        words = _stat(one, ENDS[at])
        return None if words is None else float(words)
    return one.interval[at]


def _stat(one: Metric | None, key: str) -> Any:
    return None if one is None else one.extra.get("asv", {}).get(key)


def _all_none(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(one is None for one in value))


def _one_name(text: str) -> str:
    """Return a name of asv's as it is, where it is the name of one file and not the way to another."""
    return slug(text) if re.search(r"[/\\\x00-\x1f\x7f]|^\.", text) or not text else text


def slug(text: str) -> str:
    """Return ``text`` as a name that every file system and asv take."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.").lower() or "unknown"
