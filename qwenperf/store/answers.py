"""Rows of an index as a series: one name, one unit, in the order of the history. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qwenperf.errors import StoreError
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.series import Point, Series

Shape = tuple[str, str, str]
"""Unit, direction and kind."""

OTHER_UNITS = "points in other units"
OTHER_VERSIONS = "points of other versions of the benchmark"
"""Keys under which a series says how many were left out."""


def to_series(
    case: str,
    metric: str,
    found: Mapping[int, tuple[str, ...]],
    rows: Sequence[Sequence[Any]],
    url: str,
    *,
    latest_unit: bool = False,
) -> Series:
    """Return the series that ``rows`` (columns of ``tables.POINTS``) are; ``found`` names case and shape of each.

    Direction and kind are those of the newest point, however often they have changed: that is what its tool means now.
    Points of another version of their benchmark than the newest's are left out, and counted in ``extra``: they are of
    something else. So are, with ``latest_unit``, points in another unit than the newest's.

    Raises:
      StoreError: the points are in two units.
    """
    every, rows = len(rows), _of_newest_version(found, rows)
    units = [_shape(found[row[0]])[0] for row in rows]
    if len(set(units)) > 1 and not latest_unit:
        seen = " and ".join(map(repr, dict.fromkeys(units)))
        advice = "Ask for a part in one unit, by --since or --branch."
        raise StoreError(f"{metric} of {case} is in {seen} in {url}.", advice=advice)
    kept = [row for row, unit in zip(rows, units, strict=True) if unit == units[-1]]
    newest = found[kept[-1][0]] if kept else [*found.values()][-1]
    unit, direction, kind = _shape(newest)
    left_out = {OTHER_VERSIONS: every - len(rows), OTHER_UNITS: len(rows) - len(kept)}
    return Series(
        case=case,
        metric=metric,
        unit=unit,
        direction=Direction(direction),
        kind=Kind(kind),
        points=tuple(_point(row, found[row[0]][0], case) for row in kept),
        extra={name: count for name, count in left_out.items() if count},
    )


def _of_newest_version(found: Mapping[int, tuple[str, ...]], rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Return the rows of the newest version that a benchmark says, and those that say none."""
    versions = [found[row[0]][4] for row in rows]
    newest = next(filter(None, reversed(versions)), "")
    return [row for row, version in zip(rows, versions, strict=True) if version in {"", newest}]


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
