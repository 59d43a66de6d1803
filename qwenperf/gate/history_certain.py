"""Changes of numbers without noise, such as bytes and compiles: each environment is compared with itself alone.

Several environments that take turns show one change at neighbouring points, each at its own: that is one change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qwenperf.gate.history_cause import environment_cause
from qwenperf.gate.history_input import Input
from qwenperf.gate.history_record import Found
from qwenperf.schema.regressions import Cause, Form
from qwenperf.stats.history_exact import LEAST, exact_changes


def certain_changes(read: Input) -> list[Found]:
    """Return what changed, in the order of places: steps within an environment, seams between two, and drift."""
    steps: list[Found] = []
    found: list[Found] = []
    for own in _environments(read):
        found += _seam(read, own)
        places, drifts = exact_changes(read.values[own])
        steps += [_step(read, own[index - 1], own[index]) for index in places]
        found += _drifts(read, own, drifts)
    accepted = set(read.restarts) - {own[0] for own in _environments(read)}
    found += [one for one in _united(steps) if not accepted.intersection(range(one.first, one.last + 1))]
    return sorted(found, key=lambda one: one.place)


def _environments(read: Input) -> list[list[int]]:
    """Return the places of each environment's points."""
    places: dict[str, list[int]] = {}
    for place, point in enumerate(read.points):
        places.setdefault(point.environment, []).append(place)
    return list(places.values())


def _step(read: Input, before: int, place: int) -> Found:
    """Return the change from one point of an environment to its next: between them it may be anywhere."""
    return replace(_found(read, before, place), form=Form.STEP, place=place, first=before + 1)


def _seam(read: Input, own: Sequence[int]) -> Iterator[Found]:
    """Yield the change that an environment brings with its first points, against the points before them."""
    start = own[0]
    before, after = read.values[max(start - LEAST, 0) : start], read.values[list(own[:LEAST])]
    if start < LEAST or len(after) < LEAST or start in read.restarts:
        return
    if after.min() > before.max() or after.max() < before.min():
        cause, told = environment_cause(read, start)
        yield replace(_step(read, start - 1, start), cause=cause, explained=told)


def _drifts(read: Input, own: Sequence[int], drifts: Sequence[tuple[int, int]]) -> Iterator[Found]:
    """Yield the growth of one environment, counted from the release."""
    released = max((index for index, place in enumerate(own) if place <= read.since), default=0)
    for first, last in drifts:
        start = max(first, released)
        if last > start:
            yield _found(read, own[start], own[last])


def _found(read: Input, start: int, last: int) -> Found:
    """Return a certain drift from one point to another."""
    before = float(read.values[start])
    change = float(read.values[last]) - before
    return Found(
        form=Form.DRIFT,
        place=start,
        first=start + 1,
        last=last,
        change=change,
        low=change,
        high=change,
        p_value=0.0,
        before=before,
        cause=Cause.CODE,
    )


def _united(steps: Sequence[Found]) -> list[Found]:
    """Make one step of those that several environments show, where one place can be that of all of them."""
    made: list[Found] = []
    for one in sorted(steps, key=lambda one: one.place):
        last = made[-1] if made else None
        if last is not None and one.first <= last.last and (one.change > 0) == (last.change > 0):
            made[-1] = replace(last, first=max(last.first, one.first))
        else:
            made.append(one)
    return made
