"""The time of a streamed step over the position it writes, as a line to draw: flat is what a cache is for. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from qwenperf import units
from qwenperf.schema.records import StreamEvidence

WIDTH, HEIGHT = 600, 100
_MOST_POINTS = 200
_SHOWN = 0.98
"""The share of points that the scale is made for: a hiccup of the machine would flatten the line to nothing."""


@dataclass(frozen=True, kw_only=True)
class StreamView:
    """``points`` are ``x,y`` in a drawing of ``WIDTH`` by ``HEIGHT`` whose lower edge is 0 s."""

    points: str
    top: str
    first: str
    last: str
    told: str


def stream_view(stream: StreamEvidence | None) -> StreamView | None:
    """Return the line through the medians of all trials; ``None`` where fewer than two steps were streamed."""
    if stream is None or not stream.step_s or len(stream.positions) < 2:
        return None
    count = min(len(stream.positions), *(len(trial) for trial in stream.step_s))
    if count < 2:
        return None
    medians = [statistics.median(trial[index] for trial in stream.step_s) for index in range(count)]
    positions, times = _thinned(stream.positions[:count], medians)
    top = sorted(times)[min(len(times) - 1, int(_SHOWN * len(times)))] * 1.1 or 1.0
    first, last = _end(positions, times, 0), _end(positions, times, -1)
    over = sum(one > top for one in times)
    beyond = f"; {over} off the scale, up to {units.seconds(max(times))}" if over else ""
    return StreamView(
        points=" ".join(_point(index, len(times), one, top) for index, one in enumerate(times)),
        top=units.seconds(top),
        first=first,
        last=last,
        told=f"{first} to {last}; medians of {len(stream.step_s)} trials{beyond}",
    )


def _end(positions: Sequence[int], times: Sequence[float], index: int) -> str:
    """Say how long steps took at one end of the line; a few together, because one alone is noise."""
    few = max(1, len(times) // 10)
    near = times[:few] if index == 0 else times[-few:]
    return f"{units.seconds(statistics.median(near))} at position {positions[index]}"


def _thinned(positions: Sequence[int], times: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return at most ``_MOST_POINTS`` points, each the median of its neighbours."""
    size = -(-len(times) // _MOST_POINTS)
    starts = range(0, len(times), size)
    ends = [positions[start] for start in starts]
    ends[-1] = positions[-1]
    return ends, [statistics.median(times[start : start + size]) for start in starts]


def _point(index: int, count: int, seconds: float, top: float) -> str:
    x = WIDTH * index / (count - 1) if count > 1 else 0.0
    y = HEIGHT * (1 - min(seconds, top) / top)
    return f"{x:.1f},{y:.1f}"
