"""What the types of a record cannot say, checked when one is read: gates divide by its numbers, and look up its ids.

Records that a gate would read wrongly are refused with the key path of what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.schema.hints import show
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import CaseRecord, Metric, RunRecord

SIGNED = ("scaling_per_100_tokens",)
"""Metrics that may be below 0: a step may become faster with the position."""

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
        check_case(case, f"cases[{index}].")


def check_case(case: CaseRecord, path: str = "") -> None:
    """Refuse a case that holds what no measurement gives; errors as ``check_run``."""
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
    if name in SIGNED:
        return
    for key, values in (("value", (metric.value,)), ("samples", metric.samples), ("interval", metric.interval or ())):
        for value in values:
            if value < 0 or (value == 0 and definition.unit == "tokens/s"):
                least = "above 0" if definition.unit == "tokens/s" else "at least 0"
                raise RecordError(f"{path}.{key} has {show(value)}; {name} is {least}.")
