"""What a step goes with besides code: another environment, or a machine that itself became slower."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwenperf.gate.history_input import Input
from qwenperf.schema.metrics import Direction
from qwenperf.schema.regressions import Cause
from qwenperf.schema.series import Series
from qwenperf.stats.history_known import change_at

ALPHA = 0.01
"""Chance that a canary which did not change is taken for one that did."""

_SHARE = 0.5
"""A canary explains a step of up to twice its own size: what it measures is not all that a case does."""

_EACH_SIDE = 3


def environment_cause(read: Input, place: int) -> tuple[Cause, tuple[str, ...]]:
    """Say whether the environment is another one at ``place`` than before it."""
    before, after = read.points[place - 1].environment, read.points[place].environment
    if before == after or not (before and after):
        return Cause.CODE, ()
    return Cause.ENVIRONMENT, (f"the environment is another one from this run on ({before} before, {after} after)",)


def machine_cause(
    read: Input, place: int, edges: tuple[int, int], change: float, canaries: Sequence[Series]
) -> tuple[Cause, tuple[str, ...]]:
    """Say whether a canary changed at ``place`` too, to the same side and by at least half as much as the step.

    A canary is a series of what no change of the code touches, such as the roofline that each run measures. ``edges``
    are those of the levels before and after; ``change`` is that of logarithms.
    """
    if not read.is_log or not read.worse:
        return Cause.CODE, ()
    told, side = [], 1 if change * read.worse > 0 else -1
    for canary in canaries:
        moved, p = _moved(read, place, edges, canary)
        if p <= ALPHA and side * moved >= _SHARE * abs(change):
            share = np.expm1(-moved if canary.direction is Direction.HIGHER else moved)
            told.append(f"{canary.metric}, which no change of the code touches, changed by {share:+.1%} there")
    return (Cause.MACHINE, tuple(told)) if told else (Cause.CODE, ())


def _moved(read: Input, place: int, edges: tuple[int, int], canary: Series) -> tuple[float, float]:
    """Return by how much a canary became worse, in logarithms, and how likely its noise makes that."""
    by_run = {point.run: point.value for point in canary.points if point.value > 0}
    runs = [(point.run, index) for index, point in enumerate(read.points)][edges[0] : edges[1]]
    there = [(by_run[run], index) for run, index in runs if run in by_run]
    before = sum(index < place for _, index in there)
    if min(before, len(there) - before) < _EACH_SIDE or canary.direction is Direction.NONE:
        return 0.0, 1.0
    change, p = change_at(np.log(np.asarray([value for value, _ in there])), before)
    return (-change if canary.direction is Direction.HIGHER else change), p
