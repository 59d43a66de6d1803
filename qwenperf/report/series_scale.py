"""Where the points of a series lie in a drawing, whatever their size: shared by the terminal's and the page's. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from qwenperf.schema.series import Point

_MOST = sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The lowest and the highest value that are drawn."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return where ``value`` lies: 0 at the lower edge, 1 at the upper; halves keep huge values finite."""
        span = self.high / 2 - self.low / 2
        if span == 0:  # the smallest numbers that there are
            return float(value > self.low)
        return min(max((value / 2 - self.low / 2) / span, 0.0), 1.0)

    def at(self, share: float) -> float:
        """Return the value at a share of the height."""
        return self.low * (1 - share) + self.high * share


def scale_of(points: Sequence[Point], beyond: float = 1.0) -> Scale:
    """Return the scale that shows all values and, where that leaves the values readable, their intervals too.

    An interval that is far wider than all values together is cut: it would flatten them to a line. ``beyond`` is how
    far, in halves of what the values span and in fortieths of a value. Values that are all one have nothing to flatten.
    """
    values = [point.value for point in points] or [0.0]
    low, high = min(values), max(values)
    room = beyond * max(high / 2 - low / 2, abs(high) / 40, abs(low) / 40) if low < high else _MOST
    for point in points:
        if point.interval is not None:
            low = min(low, max(point.interval[0], min(values) - room, -_MOST))
            high = max(high, min(point.interval[1], max(values) + room, _MOST))
    if low == high:
        low, high = low - (abs(low) / 20 or 1.0), high + (abs(high) / 20 or 1.0)
    return Scale(low=low, high=high)


def environments_of(points: Sequence[Point]) -> dict[str, str]:
    """Return the environments of points in order of their first, each with a name: its class and short hash."""
    found: dict[str, str] = {}
    for point in points:
        group = str(point.extra.get("class", "") or "")
        found.setdefault(
            point.environment, " ".join(part for part in (group, point.environment[:8]) if part) or "unknown"
        )
    return found


def counted(count: int, noun: str) -> str:
    """Write ``1 point`` and ``2 points``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """Return text of a record without letters that steer a terminal or that XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
