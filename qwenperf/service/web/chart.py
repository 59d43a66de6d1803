"""A window of a series as a chart needs it: columns for the browser, a drawing for who has no JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from sqlalchemy import Row

from qwenperf.report.series_scale import counted
from qwenperf.report.series_svg import series_svg
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.series import Point, Series
from qwenperf.service.db.series import Window
from qwenperf.service.times import iso
from qwenperf.service.web import links

_MARKED = {"open", "confirmed", "accepted"}
_MOST_DRAWN = 240
"""Points of the drawing: more than are told apart at its width would only make the page heavy."""


def data(series: Row[Any], window: Window, alerts: Sequence[Row[Any]], project: str) -> dict[str, Any]:
    """Return the chart's columns: ``at`` in seconds, values, both ends of the interval, and what a click opens."""
    rows = _rows(window)
    mixed = len({row["environment"] for row in rows}) > 1
    return {
        "unit": series.unit,
        "name": series.metric,
        "total": window.total,
        "at": [row["at"] / 1e6 for row in rows],
        "value": [row["value"] for row in rows],
        "low": [row["low"] for row in rows],
        "high": [row["high"] for row in rows],
        "told": [", ".join(filter(None, (row["told"], row["environment"][:8] if mixed else ""))) for row in rows],
        "href": [links.run(project, row["run"]) if row["run"] else "" for row in rows],
        "marks": [{"at": one.at / 1e6, "state": one.state, "told": one.summary} for one in _marks(alerts)],
    }


def _rows(window: Window) -> list[dict[str, Any]]:
    if window.buckets:
        return [
            {
                "at": one.at,
                "value": one.mean,
                "low": one.min,
                "high": one.max,
                "run": "",
                "commit": "",
                "told": counted(one.points, "run"),
                "environment": one.environment,
            }
            for one in window.buckets
        ]
    return [
        {
            "at": one.at,
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "run": one.run,
            "commit": one.commit,
            "told": one.commit[:10],
            "environment": one.environment,
        }
        for one in window.points
    ]


def thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return about ``most`` rows at most: means of neighbours of one environment, with the ends of their bands."""
    if len(rows) <= most:
        return rows
    size, by_environment = -(-len(rows) // most), dict[str, list[dict[str, Any]]]()
    for row in rows:
        by_environment.setdefault(row["environment"], []).append(row)
    found = [_mean(own[start : start + size]) for own in by_environment.values() for start in range(0, len(own), size)]
    return sorted(found, key=lambda row: row["at"])


def _mean(group: list[dict[str, Any]]) -> dict[str, Any]:
    ends = [row[end] if row[end] is not None else row["value"] for row in group for end in ("low", "high")]
    return group[0] | {
        "value": sum(row["value"] for row in group) / len(group),
        "low": min(ends),
        "high": max(ends),
    }


def _marks(alerts: Sequence[Row[Any]]) -> list[Row[Any]]:
    return [one for one in alerts if one.kind == "change" and one.state in _MARKED]


def drawing(series: Row[Any], window: Window, alerts: Sequence[Row[Any]]) -> Markup:
    """Return the window as SVG."""
    rows = thinned(_rows(window), _MOST_DRAWN)
    points = tuple(
        Point(
            value=row["value"],
            run=row["run"],
            measured_at=iso(row["at"]),
            commit=row["commit"],
            environment=row["environment"],
            interval=None if row["low"] is None or row["high"] is None else (row["low"], row["high"]),
        )
        for row in rows
    )
    drawn = Series(
        case=series.case,
        metric=series.metric,
        unit=series.unit,
        direction=Direction(series.direction),
        kind=Kind(series.kind),
        points=points,
    )
    starts = [one.at for one in _marks(alerts)]
    changes = [index for index, row in enumerate(rows) if any(_begins(rows, index, at) for at in starts)]
    return Markup(series_svg(drawn, changes))  # noqa: S704  (our own drawing, which escapes names)


def _begins(rows: Sequence[dict[str, Any]], index: int, at: int) -> bool:
    """Say whether a change at ``at`` is first seen in the row ``index``."""
    return rows[index]["at"] >= at and (index == 0 or rows[index - 1]["at"] < at)
