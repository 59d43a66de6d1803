"""Which known alert of a series is what was found in it: one change stays one alert, wherever it is seen to begin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

OPEN, CONFIRMED, ACCEPTED, DISMISSED, RESOLVED = "open", "confirmed", "accepted", "dismissed", "resolved"
WAITING, ANSWERED = (OPEN, CONFIRMED), (ACCEPTED, DISMISSED)
DRIFTS = "drifts since"
"""What the summary of a drift says: it is counted from the first point that is looked at, whichever that is."""

_LARGER = 2.0
"""What somebody answered is not asked again until it is so many times as large."""

_ROUNDED = 1e-9
"""Share of a change that sums may be off by."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found in a series: a change that begins at a run, or that it stopped behind it.

    Attributes:
      run_id: number of the run.
      at: its time.
      summary: what is told; up to the name of the run, where ``run`` is given, and ``cause`` behind it.
      near: numbers of runs that it may be known by, the nearest first.
      likely: those that may be its first as well as ``run_id``.
    """

    run_id: int
    at: int
    summary: str
    run: str = ""
    cause: str = ""
    state: str = OPEN
    family: str = ""
    before: float | None = None
    after: float | None = None
    near: tuple[int, ...] = ()
    likely: frozenset[int] = field(default=frozenset())

    @property
    def ratio(self) -> float | None:
        """The new level as a multiple of the old."""
        found = self.after / self.before if self.before and self.after is not None else None
        return found if found is not None and math.isfinite(found) else None

    @property
    def is_drift(self) -> bool:
        """Whether it grew point by point."""
        return self.summary.endswith(DRIFTS)

    def told(self, run: str) -> str:
        """Return what is told where it is known by ``run``."""
        return f"{self.summary} run {run}{self.cause}" if self.run else self.summary


@dataclass(frozen=True, kw_only=True)
class Sight:
    """How far a history was looked at that is longer than what can be.

    Attributes:
      runs: numbers of the runs at which a change would have been found.
      taken: what the steps in sight took back of what was before, up to each, and what its interval leaves open.
      is_relative: whether these are logarithms, as where changes are shares.
    """

    runs: frozenset[int]
    taken: tuple[tuple[float, float], ...] = ()
    is_relative: bool = True

    def is_over(self, row: Row[Any]) -> bool:
        """Say whether the change of an alert, which is found no more, is over: not for being out of sight."""
        return row.run_id in self.runs or self._took_back(row)

    def _took_back(self, row: Row[Any]) -> bool:
        if row.before is None or row.after is None or (self.is_relative and min(row.before, row.after) <= 0):
            return False
        change = abs(math.log(row.after / row.before) if self.is_relative else row.after - row.before)
        return any(change - taken <= min(left, change / 2) + _ROUNDED * change for taken, left in self.taken)


def matched(found: Iterable[Found], known: Sequence[Row[Any]]) -> Iterator[tuple[Found, Row[Any] | None]]:
    """Yield what was found with the alert that is the same change, ``None`` where none is.

    ``known``: id, run_id, state, before, after and summary of the alerts of the series.
    """
    left = {row.id: row for row in known}
    # What waits for an answer at its very run is that, whatever is near; a drift that is known is the drift.
    for one in sorted(found, key=lambda one: (not any(_is_at(one, row) for row in known), not one.is_drift)):
        same = min((row for row in left.values() if _is_same(one, row)), key=lambda row: _rank(one, row), default=None)
        if same is not None:
            del left[same.id]
        yield one, same


def is_as_told(one: Found, row: Row[Any]) -> bool:
    """Say whether a change may begin at the run that its alert names."""
    return (one.is_drift and _is_drift(row)) or row.run_id in {one.run_id, *one.likely}


def _is_drift(row: Row[Any]) -> bool:
    return DRIFTS in row.summary


def _is_at(one: Found, row: Row[Any]) -> bool:
    return bool(row.run_id == one.run_id and row.state in WAITING)


def _is_same(one: Found, row: Row[Any]) -> bool:
    if row.run_id == one.run_id:
        return True
    near = row.state != RESOLVED if _is_drift(row) else row.run_id in one.near
    # A step may be found where a drift was, and the other way about: but not beside one that is accepted as it is.
    is_other = _is_drift(row) != one.is_drift and row.state == ACCEPTED
    return near and not is_other and not (row.state in ANSWERED and _is_larger(one, row))


def _rank(one: Found, row: Row[Any]) -> tuple[bool, bool, int, int, int]:
    """Sort by what must not be lost: what waits at its run, an answer, what waits near, what was over."""
    kind = 0 if row.state in ANSWERED else 1 if row.state in WAITING else 2
    away = one.near.index(row.run_id) if row.run_id in one.near else len(one.near)
    return not _is_at(one, row), _is_drift(row) != one.is_drift, kind, away, row.id


def _is_larger(one: Found, row: Row[Any]) -> bool:
    """Say whether a change is much larger than what an alert tells of: that is another question."""
    if one.before is None or one.after is None or row.before is None or row.after is None:
        return False
    levels = [one.before, one.after, row.before, row.after]
    if min(levels) > 0:
        levels = [math.log(level) for level in levels]
    return bool(abs(levels[1] - levels[0]) > _LARGER * abs(levels[3] - levels[2]))
