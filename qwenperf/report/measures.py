"""Cases that are no engine at a workload, such as those of other tools: what they measured, a column a metric. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, Metric

TITLE = "measurements"
"""What such cases stand under, all of a run together."""

MOST = 4
"""Metrics that a table of 80 columns has room for."""


def is_plain(case: CaseRecord) -> bool:
    """Say whether a case measured something, and tells of no workload that engines could be compared at."""
    return bool(case.metrics) and not isinstance(case.spec.get("workload"), Mapping)


def shown(cases: Sequence[CaseRecord]) -> tuple[str, ...]:
    """Return the metrics that a table shows: those that most cases have, good or bad ones before mere facts."""
    found = Counter(name for case in cases for name in case.metrics)
    judged = {name for case in cases for name, one in case.metrics.items() if one.direction is not Direction.NONE}
    return tuple(sorted(found, key=lambda name: (name not in judged, -found[name]))[:MOST])


def measures_table(cases: Sequence[CaseRecord], verdict: Callable[[CaseRecord], Text]) -> Table:
    """Return a table with a row a case, which ends with its ``verdict``."""
    names = shown(cases)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for case in cases:
        table.add_row(case.id, *(reading(case.metrics.get(name)) for name in names), verdict(case))
    return table


def reading(metric: Metric | None) -> str:
    """Write a metric with its unit."""
    return "-" if metric is None else units.quantity(metric.value, metric.unit)


def left_out(cases: Sequence[CaseRecord]) -> str:
    """Say how many metrics the table does not show; empty where it shows all."""
    more = len({name for case in cases for name in case.metrics} - {*shown(cases)})
    return f"{more} more metric{'s are' if more > 1 else ' is'} in the record." if more else ""
