"""A series as a drawing of a few lines in a terminal: points over their intervals, and where something changed. Pure.

Drawn with braille patterns, 2 by 4 dots a letter; ``plain`` draws with letters that every terminal has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from qwenperf import units
from qwenperf.report.series_scale import Scale, scale_of
from qwenperf.schema.series import Point, Series

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a braille letter, by row and column."""

_LABEL = 11
_HEIGHT = 10


def series_plot(
    series: Series, *, changes: Sequence[int] = (), width: int = 80, plain: bool = False, height: int = _HEIGHT
) -> Iterator[Text]:
    """Yield the lines of a drawing. ``changes`` are the indices of the first points after a change."""
    points = series.points
    if not points:
        return
    canvas = _Canvas(width=max(width - _LABEL, 10), height=height, plain=plain)
    scale = scale_of(points)
    columns = [canvas.column(place, len(points)) for place in range(len(points))]
    for point, column in zip(points, columns, strict=True):
        canvas.draw(point, column, scale)
    labels = {0: scale.high, height // 2: scale.at(1 - (height // 2 + 0.5) / height), height - 1: scale.low}
    for row in range(height):
        label = _label(labels[row], series.unit) if row in labels else ""
        yield Text(f"{label[: _LABEL - 2]:>{_LABEL - 2}} ", no_wrap=True).append_text(canvas.line(row))
    if changes:
        marks = {columns[place] // canvas.across for place in changes if 0 <= place < len(columns)}
        line = "".join("^" if place in marks else " " for place in range(canvas.width))
        yield Text(f"{'change':>{_LABEL - 2}} {line.rstrip()}", style="bold", no_wrap=True)
    first, last = _date(points[0]), _date(points[-1])
    gap = " " * max(1, canvas.width - len(first) - len(last))
    yield Text(
        f"{'':>{_LABEL - 2}} {first}{gap}{last}" if len(points) > 1 else f"{'':>{_LABEL - 2}} {first}", no_wrap=True
    )


class _Canvas:
    """A grid of dots in two layers: intervals below, points above."""

    def __init__(self, *, width: int, height: int, plain: bool) -> None:
        self.width, self.height = width, height
        self.across, self._down = (1, 1) if plain else (2, 4)
        self._plain = plain
        self._points: set[tuple[int, int]] = set()
        self._intervals: set[tuple[int, int]] = set()

    def column(self, place: int, count: int) -> int:
        """Return the column of dots of one of ``count`` points."""
        most = self.width * self.across - 1
        return 0 if count == 1 else round(place * most / (count - 1))

    def draw(self, point: Point, column: int, scale: Scale) -> None:
        """Draw a point and its interval."""
        self._points.add((column, self._row(point.value, scale)))
        if point.interval is not None:
            top, bottom = self._row(point.interval[1], scale), self._row(point.interval[0], scale)
            self._intervals |= {(column, row) for row in range(top, bottom + 1)}

    def line(self, row: int) -> Text:
        """Return one line of letters: bold where a point is, dim where only an interval is."""
        text = Text(no_wrap=True)
        for place in range(self.width):
            letter, style = self._letter(place, row)
            text.append(letter, style)
        text.rstrip()
        return text

    def _row(self, value: float, scale: Scale) -> int:
        most = self.height * self._down - 1
        return most - round(scale.share(value) * most)

    def _letter(self, place: int, row: int) -> tuple[str, str]:
        cells = [
            (column, line)
            for column in range(place * self.across, (place + 1) * self.across)
            for line in range(row * self._down, (row + 1) * self._down)
        ]
        points, intervals = self._points.intersection(cells), self._intervals.intersection(cells)
        if not points and not intervals:
            return " ", ""
        if not points:
            return (":" if self._plain else "┊"), "dim"
        bits = sum(_DOTS[line % self._down][column % self.across] for column, line in points) if not self._plain else 0
        return ("*" if self._plain else chr(_BRAILLE + bits)), "bold"


def _label(value: float, unit: str) -> str:
    """Write a value short; where its unit does not change with its size, the title has it."""
    label = units.quantity(value, unit)
    return label if unit in {"s", "bytes"} else label.removesuffix(f" {unit}")


def _date(point: Point) -> str:
    return (point.committed_at or point.measured_at)[:10]
