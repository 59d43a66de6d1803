"""A series as one SVG that needs nothing else: points, their intervals, where something changed. Pure.

Colours follow the page (``currentColor``), environments have shapes, and a description says the same in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from qwenperf import units
from qwenperf.report.series_scale import Scale, counted, environments_of, printable, scale_of
from qwenperf.schema.series import Point, Series

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 14, 26, 40
_TICKS = 4
_BEYOND = 40.0
"""Here is room for an interval as wide as its value, up and down: only what is far beyond is cut."""

_SHAPES = ("circle", "square", "diamond", "triangle")


def series_svg(series: Series, changes: Sequence[int] = ()) -> str:
    """Return a drawing of a series. ``changes`` are the indices of the first points after a change."""
    points = series.points
    title = f"{series.metric} of {series.case}"
    described = _described(series, changes)
    scale = scale_of(points, _BEYOND)
    places = [_x(place, len(points)) for place in range(len(points))]
    shapes = {key: _SHAPES[place % len(_SHAPES)] for place, key in enumerate(environments_of(points))}
    parts = [*_grid(series, scale), *_dates(points, places), *_bands(points, places, scale)]
    parts += _lines(points, places, scale)
    parts += (_change(places[place]) for place in changes if 0 <= place < len(places))
    parts += (_dot(series, point, x, scale, shapes) for point, x in zip(points, places, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label={quoteattr(printable(f"{title}: {described}"))} font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{_text(title)}</title><desc>{_text(described)}</desc>{"".join(parts)}</svg>\n'
    )


def shape_of(environment: str, points: Sequence[Point]) -> str:
    """Return the shape that points of an environment have in the drawing of ``points``."""
    return _SHAPES[list(environments_of(points)).index(environment) % len(_SHAPES)]


def _described(series: Series, changes: Sequence[int]) -> str:
    points = series.points
    if not points:
        return "no points"
    ends = " to ".join(units.quantity(point.value, series.unit) for point in (points[0], points[-1]))
    dates = " to ".join(dict.fromkeys(_date(point) for point in (points[0], points[-1])))
    return f"{counted(len(points), 'point')}, {dates}, {ends}; {counted(len(changes), 'change')}"


def _x(place: int, count: int) -> float:
    inner = _WIDTH - _LEFT - _RIGHT
    return round(_LEFT + (inner / 2 if count == 1 else inner * place / (count - 1)), 1)


def _y(value: float, scale: Scale) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.share(value)), 1)


def _grid(series: Series, scale: Scale) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        value = scale.at(tick / _TICKS)
        y = _y(value, scale)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="currentColor" opacity="0.2"/>'
        label = units.quantity(value, series.unit)
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_text(label)}</text>'


def _dates(points: Sequence[Point], places: Sequence[float]) -> Iterator[str]:
    shown = {0: "start", len(points) - 1: "end"} if len(points) > 1 else {0: "middle"}
    for place, anchor in shown.items() if points else ():
        label = _text(f"{_date(points[place])} {points[place].commit[:8]}".strip())
        yield f'<text x="{places[place]}" y="{_HEIGHT - 14}" text-anchor="{anchor}">{label}</text>'


def _bands(points: Sequence[Point], places: Sequence[float], scale: Scale) -> Iterator[str]:
    """Yield the interval of each point."""
    for point, x in zip(points, places, strict=True):
        if point.interval is not None:
            top, bottom = _y(point.interval[1], scale), _y(point.interval[0], scale)
            size = f'width="5" height="{max(bottom - top, 1):.1f}"'
            yield f'<rect x="{x - 2.5:.1f}" y="{top}" {size} opacity="0.2"/>'


def _lines(points: Sequence[Point], places: Sequence[float], scale: Scale) -> Iterator[str]:
    """Yield a line through the points of each environment: between two machines there is nothing to connect."""
    for key in environments_of(points):
        own = [
            f"{x},{_y(point.value, scale)}" for point, x in zip(points, places, strict=True) if point.environment == key
        ]
        if len(own) > 1:
            yield f'<polyline points="{" ".join(own)}" fill="none" stroke="currentColor" opacity="0.45"/>'


def _change(x: float) -> str:
    line = (
        f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    return f'{line}<text x="{x}" y="{_TOP - 8}" text-anchor="middle">change</text>'


def _dot(series: Series, point: Point, x: float, scale: Scale, shapes: dict[str, str]) -> str:
    y = _y(point.value, scale)
    drawn = {
        "circle": f'<circle cx="{x}" cy="{y}" r="3.2"',
        "square": f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"',
        "diamond": f'<path d="M{x},{y - 4.4:.1f} l4.4,4.4 l-4.4,4.4 l-4.4,-4.4 z"',
        "triangle": f'<path d="M{x},{y - 4:.1f} l4,7.2 l-8,0 z"',
    }[shapes[point.environment]]
    told = f"{units.quantity(point.value, series.unit)}, {_date(point)} {point.commit[:8]} {point.run}"
    return f"{drawn}><title>{_text(told)}</title></{drawn[1:].split(' ', 1)[0]}>"


def _date(point: Point) -> str:
    return (point.committed_at or point.measured_at)[:10]


def _text(text: str) -> str:
    return escape(printable(text))
