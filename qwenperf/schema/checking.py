"""What the types of a record cannot say, checked when one is read: gates divide by its numbers, and look up its ids.

Records that a gate would read wrongly are refused with the key path of what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.comparison import ComparisonRecord, RoundRecord
from qwenperf.schema.hints import show
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import CaseRecord, Metric, RunRecord

SIGNED = ("scaling_per_100_tokens",)
"""Metrics that may be below 0: a step may become faster with the position."""

_RATE = "tokens/s"

_SIZES = ("prompt_length", "new_tokens", "batch")


def check_run(run: RunRecord) -> None:
    """Refuse a run whose cases cannot be told apart, or hold what no measurement gives.

    Raises:
      RecordError: names the key path.
    """
    seen: dict[str, int] = {}
    for index, case in enumerate(run.cases):
        if case.id in seen:
            raise RecordError(f"cases[{index}].id is {show(case.id)}, which is the id of cases[{seen[case.id]}] too.")
        seen[case.id] = index
        _check_case(case, f"cases[{index}].")


def _check_case(case: CaseRecord, path: str) -> None:
    _check_workload(case.spec.get("workload"), f"{path}spec.workload")
    for name, metric in case.metrics.items():
        _check_metric(name, metric, f"{path}metrics.{name}")


def _check_workload(workload: Any, path: str) -> None:
    """Check the sizes of a request, by which gates reckon; a spec without one, or with one in words, is let through."""
    if not isinstance(workload, Mapping):
        return
    for name in _SIZES:
        size = workload.get(name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RecordError(f"{path}.{name} is {show(size)}, which is not a whole number of at least 1.")
    if not isinstance(workload.get("dtype"), str):
        raise RecordError(f"{path}.dtype is {show(workload.get('dtype'))}, which is not text.")


def _check_metric(name: str, metric: Metric, path: str) -> None:
    definition = REGISTRY.get(name)
    if definition is None:
        return
    if metric.unit != definition.unit:
        raise RecordError(f"{path}.unit is {show(metric.unit)}; {name} is in {definition.unit!r}.")
    if metric.interval is not None and metric.interval[0] > metric.interval[1]:
        raise RecordError(f"{path}.interval ends before it begins: {show(list(metric.interval))}.")
    if name not in SIGNED and metric.value < 0:
        raise RecordError(f"{path}.value is {show(metric.value)}; {name} is at least 0.")
    if definition.unit == _RATE:
        _check_rate(name, metric, path)


def _check_rate(name: str, metric: Metric, path: str) -> None:
    """Refuse a rate of 0, by which gates divide. Single times may be below 0, as noise is; their rates are not."""
    for key, values in (("value", (metric.value,)), ("samples", metric.samples), ("interval", metric.interval or ())):
        for value in values:
            if value <= 0:
                raise RecordError(f"{path}.{key} has {show(value)}; {name} is above 0.")


def check_comparison(comparison: ComparisonRecord) -> None:
    """Refuse a comparison whose rounds say nothing: no side left out, no time that is not positive.

    Raises:
      RecordError: names the key path.
    """
    seen: set[str] = set()
    for index, case in enumerate(comparison.cases):
        if case.id in seen:
            raise RecordError(f"cases[{index}].id is {show(case.id)}, which is there twice.")
        seen.add(case.id)
    for index, pair in enumerate(comparison.pairs):
        if pair.first not in {"base", "head"}:
            raise RecordError(f"pairs[{index}].first is {show(pair.first)}; it is 'base' or 'head'.")
        for name, rounds in pair.rounds.items():
            for number, one in enumerate(rounds):
                _check_round(one, f"pairs[{index}].rounds[{name!r}][{number}]")


def _check_round(one: RoundRecord, path: str) -> None:
    if set(one.order) != {"A", "B"}:
        raise RecordError(f"{path}.order is {show(one.order)}; it is made of A (base) and B (head), both.")
    for name in ("wall_s", "cpu_s"):
        times = getattr(one, name)
        if len(times) != len(one.order):
            raise RecordError(f"{path}.{name} has {len(times)} times for the order {one.order}.")
    if min(one.wall_s) <= 0 or min(one.cpu_s) < 0:
        raise RecordError(f"{path} has a time that is not positive.")


def check_aot(record: AotRecord) -> None:
    """Refuse a record whose programs cannot be told apart, or have sizes below 0.

    Raises:
      RecordError: names the key path.
    """
    seen: dict[str, int] = {}
    for index, case in enumerate(record.cases):
        if case.id in seen:
            raise RecordError(f"cases[{index}].id is {show(case.id)}, which is the id of cases[{seen[case.id]}] too.")
        seen[case.id] = index
        _check_program(case, f"cases[{index}]")


_COUNTED = ("flops", "hbm_bytes", "argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "peak_bytes")


def _check_program(case: AotCase, path: str) -> None:
    if case.target.chips < 1 or case.target.devices < 1:
        raise RecordError(f"{path}.target has {case.target.chips} chips and {case.target.devices} devices.")
    for name in _COUNTED:
        value = None if case.program is None else getattr(case.program, name)
        if value is not None and value < 0:
            raise RecordError(f"{path}.program.{name} is {show(value)}, which is below 0.")
