"""Sums up a profile: how long steps took, how busy the device was in them, which operations took the time.

What operations took is told of *typical* steps: one that takes more than twice the median is left out and told apart,
so that a hiccup of the machine changes no operation. Plain JSON data out; seconds throughout.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from qwenperf.traces import graphs
from qwenperf.traces.attribution import coverage, innermost, merged
from qwenperf.traces.rows import SECONDS, Device, by_key, operation_rows
from qwenperf.traces.xplane import Profile

VERSION = 2
TOP = 60
_SLOW = 2.0
_HOST_TOP = 8
PYTHON = "Python"
"""What the host did where the profiler recorded nothing: the interpreter, or a wait in it."""


def summarize(profile: Profile, *, tokens_per_step: int = 1, top: int = TOP) -> dict[str, Any]:
    """Return plain JSON data; docs/traces.md says what each key means.

    ``tokens_per_step`` is how many tokens of a row one step makes: 1, or all of them where a step is a whole request.
    """
    windows = _windows(profile)
    step_s = [(end - start) * SECONDS for start, end in windows] if profile.steps else []
    typical = _typical(windows)
    devices = _devices(profile, typical, windows)
    busy = _busy(devices, windows)
    rows = operation_rows(profile, devices)
    return {
        "version": VERSION,
        "steps": len(step_s),
        "step_s": step_s,
        "step_median_s": statistics.median(step_s) if step_s else None,
        "step_busy_s": busy if profile.steps else [],
        "device_busy_s": sum(busy),
        "host_gap_s": max(0.0, sum((end - start) * SECONDS for start, end in windows) - sum(busy)),
        "dispatches": [sum(start <= one < end for one in profile.launches_ps) for start, end in windows],
        "devices": len(devices),
        "tokens_per_step": tokens_per_step,
        "typical_steps": len(typical) if profile.steps else 0,
        "typical_s": sum(end - start for start, end in typical) * SECONDS,
        "operation_count": sum(row["count"] for row in rows),
        "operations": rows[:top],
        "categories": _categories(rows),
        "graphs": graphs.told(rows, profile.graphs),
        "host": _host(profile, devices, typical),
        "remarks": list(profile.remarks),
    }


def _windows(profile: Profile) -> list[tuple[int, int]]:
    """Return the steps; without any, the whole time in which operations ran."""
    if profile.steps:
        return merged([(step.start_ps, step.end_ps) for step in profile.steps])
    ends = [(int(track.start_ps[0]), int(track.end_ps.max())) for track in profile.tracks if len(track.key)]
    return [(min(start for start, _ in ends), max(end for _, end in ends))] if ends else []


def _typical(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    if not windows:
        return []
    limit = _SLOW * statistics.median(end - start for start, end in windows)
    return [(start, end) for start, end in windows if end - start <= limit]


def _devices(profile: Profile, typical: Sequence[tuple[int, int]], windows: Sequence[tuple[int, int]]) -> list[Device]:
    found = []
    for name in dict.fromkeys(track.device for track in profile.tracks):
        tracks = [track for track in profile.tracks if track.device == name]
        segments = [innermost(track) for track in tracks]
        found.append(
            Device(
                segments=segments,
                tracks=tracks,
                typical=coverage(segments, typical),
                every=coverage(segments, windows),
            )
        )
    return found


def _busy(devices: Sequence[Device], windows: Sequence[tuple[int, int]]) -> list[float]:
    """Return the busy seconds of each window, averaged over devices."""
    if not devices or not windows:
        return [0.0] * len(windows)
    start, end = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    busy = [device.every.between(device.every.busy, start, end) for device in devices]
    return [float(one) * SECONDS for one in np.mean(busy, axis=0)]


def _categories(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        mine = found.setdefault(row["category"], {"count": 0, "time_s": 0.0, "wall_s": 0.0})
        for name in mine:
            mine[name] += row[name]
    return dict(sorted(found.items(), key=lambda item: -item[1]["wall_s"]))


def _host(profile: Profile, devices: Sequence[Device], typical: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Say what the host did in typical steps while no device ran anything."""
    total = sum(end - start for start, end in typical)
    work = coverage([one for device in devices for one in device.segments], typical)
    idle = work.inside - work.busy
    waited = np.zeros(len(profile.keys))
    for track in profile.host:
        segments = innermost(track)
        waited += by_key(segments, work.between(idle, segments.start, segments.end), len(profile.keys))
    busy = float(np.mean([device.typical.busy[-1] for device in devices])) if devices else 0.0
    named = {profile.keys[number].name: float(waited[number]) for number in np.flatnonzero(waited)}
    gap = float(idle[-1]) if len(idle) else float(total)
    named[PYTHON] = max(0.0, gap - sum(named.values()))
    longest = sorted(named.items(), key=lambda item: -item[1])[:_HOST_TOP]
    return {
        "gap_s": max(0.0, total - busy) * SECONDS,
        "doing": [{"name": name, "time_s": spent * SECONDS} for name, spent in longest if spent > 0],
    }
