"""Rows of an index as a series: one name, one unit, in the order of the history. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qwenperf.errors import StoreError
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.series import Point, Series

Shape = tuple[str, str, str]
"""Unit, direction and kind."""


def to_series(
    case: str, metric: str, found: Mapping[int, tuple[str, ...]], rows: Sequence[Sequence[Any]], url: str
) -> Series:
    """Return the series that ``rows`` (columns of ``tables.POINTS``) are; ``found`` names case and shape of each.

    Raises:
      StoreError: the points are in two units.
    """
    shapes: dict[Shape, None] = dict.fromkeys(_shape(found[row[0]]) for row in rows)
    units = dict.fromkeys(shape[0] for shape in shapes)
    if len(units) > 1:
        advice = "Ask for a part in one unit, by --since or --branch."
        raise StoreError(f"{metric} of {case} is in {' and '.join(map(repr, units))} in {url}.", advice=advice)
    unit, direction, kind = [*map(_shape, found.values()), *shapes][-1]
    return Series(
        case=case,
        metric=metric,
        unit=unit,
        direction=Direction(direction),
        kind=Kind(kind),
        points=tuple(_point(row, found[row[0]][0], case) for row in rows),
    )


def _shape(found: tuple[str, ...]) -> Shape:
    return found[1], found[2], found[3]


def _point(row: Sequence[Any], name: str, present: str) -> Point:
    at, value, low, high, coverage, samples, trace, run, measured_at, sha, committed_at, branch, key, group, dirty = (
        row[1:]
    )
    extra = {"at": at, "class": group, "coverage": coverage, "dirty": bool(dirty)}
    if name != present:
        extra["case"] = name
    return Point(
        value=value,
        run=run,
        measured_at=measured_at,
        commit=sha,
        committed_at=committed_at,
        branch=branch,
        environment=key,
        interval=None if low is None or high is None else (low, high),
        samples=samples,
        trace=trace,
        extra={name: one for name, one in extra.items() if one is not None and one is not False and one != ""},
    )
