"""Shares time out: every instant of a step goes to the operations that run in it, or to the host where none does.

Where k operations run at once on one device, each gets 1/k of the instant, and an operation that contains others gets
what they leave. So the shares of a device and its gaps add up to the steps, whatever runs in parallel.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qwenperf.traces.xplane import Track

Times = NDArray[np.int64]
Windows = Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Disjoint pieces of a track: in each, ``key`` is the innermost operation that runs."""

    start: Times
    end: Times
    key: NDArray[np.int32]


def innermost(track: Track) -> Segments:
    """Cut a track so that what contains something is only where that is not."""
    start, end, key = track.start_ps, track.end_ps, track.key
    if not len(start) or bool(np.all(start[1:] >= end[:-1])):
        return Segments(start=start, end=end, key=key)
    return _cut(start, end, key)


def _cut(start: Times, end: Times, key: NDArray[np.int32]) -> Segments:
    starts, ends, keys = array("q"), array("q"), array("i")
    open_ends: list[int] = []
    open_keys: list[int] = []
    at = 0

    def close(until: int) -> None:
        nonlocal at
        if until > at:
            starts.append(at)
            ends.append(until)
            keys.append(open_keys[-1])
            at = until

    for one_start, one_end, one_key in zip(start.tolist(), end.tolist(), key.tolist(), strict=True):
        while open_ends and open_ends[-1] <= one_start:
            close(open_ends[-1])
            open_ends.pop()
            open_keys.pop()
        if open_ends:
            close(one_start)
        at = max(at, one_start)
        open_ends.append(one_end)
        open_keys.append(one_key)
    while open_ends:
        close(open_ends.pop())
        open_keys.pop()
    return Segments(
        start=np.frombuffer(starts, np.int64), end=np.frombuffer(ends, np.int64), key=np.frombuffer(keys, np.int32)
    )


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Running totals of picoseconds within windows, at the moments ``at``; linear between two of them.

    ``inside`` is all time, ``busy`` that in which something runs, ``shared`` the time divided by how many run.
    """

    at: Times
    inside: NDArray[np.float64]
    busy: NDArray[np.float64]
    shared: NDArray[np.float64]

    def between(self, totals: NDArray[np.float64], start: Times, end: Times) -> NDArray[np.float64]:
        """Return how much of ``totals`` lies between each start and end."""
        if not len(self.at):
            return np.zeros(len(start))
        found: NDArray[np.float64] = np.interp(end, self.at, totals) - np.interp(start, self.at, totals)
        return found


def coverage(segments: Sequence[Segments], windows: Windows) -> Coverage:
    """Add up one device's time within ``windows``, which are disjoint and in order."""
    starts = np.sort(np.concatenate([one.start for one in segments] or [np.zeros(0, np.int64)]))
    ends = np.sort(np.concatenate([one.end for one in segments] or [np.zeros(0, np.int64)]))
    opens, closes = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    at = np.unique(np.concatenate([starts, ends, opens, closes]))
    if not len(at):
        nothing = np.zeros(0)
        return Coverage(at=at, inside=nothing, busy=nothing, shared=nothing)
    running = np.searchsorted(starts, at, "right") - np.searchsorted(ends, at, "right")
    length = np.diff(at, append=at[-1]) * (np.searchsorted(opens, at, "right") > np.searchsorted(closes, at, "right"))
    return Coverage(
        at=at,
        inside=_totals(length),
        busy=_totals(length * (running > 0)),
        shared=_totals(length / np.maximum(running, 1) * (running > 0)),
    )


def _totals(length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what has passed before each moment."""
    return np.concatenate([[0.0], np.cumsum(length, dtype=np.float64)[:-1]])


def merged(windows: Windows) -> list[tuple[int, int]]:
    """Return ``windows`` as disjoint ones, in order: those that overlap as one, those that only touch apart."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
