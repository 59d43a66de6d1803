"""Series as one page that needs nothing else: no script, no network. Pure: series in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from qwenperf.report.history import BETTER, columns, notes, rows
from qwenperf.report.html import templates, written
from qwenperf.report.html_blocks import Column, Table
from qwenperf.report.series_scale import counted, environments_of
from qwenperf.report.series_svg import series_svg, shape_of
from qwenperf.schema.series import Series


def history_page(store: str, shown: Sequence[tuple[Series, Sequence[int]]]) -> str:
    """Return a page of series, each with the first points after its changes. Whatever they hold is escaped."""
    environment, style, policy = templates()
    views = [_view(series, changes) for series, changes in shown]
    page = environment.get_template("history.html")
    return written(page.render(store=store, views=views, style=style, policy=policy))


def _view(series: Series, changes: Sequence[int]) -> dict[str, Any]:
    heads = {"machines": True, "branches": True}
    shapes = {key: shape_of(key, series.points) for key in environments_of(series.points)}
    named = environments_of(series.points)
    return {
        "title": f"{series.metric} of {series.case}",
        "told": f"{series.unit}, {BETTER[series.direction]}, {series.kind}; {counted(len(series.points), 'point')}",
        "svg": Markup(series_svg(series, changes)),  # noqa: S704  (escaped where it is drawn)
        "notes": [note.plain for note in notes(series)],
        "environments": [f"{shapes[key]}: {named[key]}" for key in named],
        "table": Table(
            caption="Points",
            columns=tuple(Column(name=name, right=right) for name, right in columns(**heads)),
            rows=tuple(rows(series, set(changes), **heads)),
        ),
    }
