"""Changes of numbers without noise, such as bytes and compiles: every new value is a change, a lone one a spike."""

from __future__ import annotations

from qwenperf.stats.history_noise import Array

LEAST = 2
"""Points that a value needs on either side of a change."""

_IN_A_ROW = 3
"""Changes one after the other, all the same way, from which they are one drift."""


def exact_changes(values: Array, least: int = LEAST) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the first points of new levels, and drifts as their first and last points.

    A level begins where the next ``least`` points are all above, or all below, the ``least`` before. Three or more such
    points in a row are one drift. A lone value between two equal ones is no level: what landed, was taken back and
    landed again is a change from where it stays.
    """
    values = _without_lone(values)
    rises = [place for place in range(least, len(values) - least + 1) if _turn(values, place, least)]
    steps: list[int] = []
    drifts: list[tuple[int, int]] = []
    for run in _runs(values, rises, least):
        if len(run) >= _IN_A_ROW:
            drifts.append((run[0] - 1, run[-1]))
        else:
            steps += run
    return steps, drifts


def _without_lone(values: Array) -> Array:
    """Return the values, each that stands alone between two equal ones made like them, from the first on."""
    level = values.copy()
    for place in range(1, len(level) - 1):
        if level[place - 1] == level[place + 1]:
            level[place] = level[place - 1]
    return level


def _turn(values: Array, place: int, least: int) -> int:
    """Return 1 for a rise at ``place``, -1 for a fall, 0 for neither."""
    before, after = values[place - least : place], values[place : place + least]
    if values[place] == values[place - 1]:
        return 0
    if after.min() > before.max():
        return 1
    return -1 if after.max() < before.min() else 0


def _runs(values: Array, places: list[int], least: int) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in places:
        is_next = bool(runs) and runs[-1][-1] == place - 1
        if is_next and _turn(values, place, least) == _turn(values, place - 1, least):
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs
