"""From places where a step may be to steps that noise does not make: tested, moved, and the least likely dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwenperf.stats.history_model import Errors, coefficients, errors, step_columns, whiten
from qwenperf.stats.history_noise import Array
from qwenperf.stats.history_places import Scan, scan

_ROUNDS = 60
_MORE = 20
"""So many rounds at least, and so many more than steps, of which a round drops one: after that places go round in
circles, and what stands then is taken."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A history without outliers and what is known of it before any step is looked for.

    ``known`` columns explain without being tested: the level, restarts, environments. ``edges`` are places between
    which a step must lie, with ``least`` points to either side. ``share`` of the points were not pulled in.
    """

    values: Array
    known: Array
    edges: tuple[int, ...]
    least: int
    share: float = 1.0

    def columns(self, places: Sequence[int]) -> Array:
        """Return the known columns and those of steps at ``places``."""
        return np.hstack([self.known, step_columns(len(self.values), places)])

    def errors(self, places: Sequence[int]) -> Errors:
        """Estimate the errors around levels with steps at ``places``, each of which has chosen its place and size."""
        columns = self.columns(places)
        return errors(self.values, columns, self.known.shape[1] + 2 * len(places), self.share)

    def window(self, place: int, others: Sequence[int]) -> tuple[int, int]:
        """Return the edges between which the step at ``place`` may move, other steps among them."""
        edges = (0, *self.edges, *others, len(self.values))
        return max(edge for edge in edges if edge < place), min(edge for edge in edges if edge >= place)

    def scan(self, place: int, others: Sequence[int], found: Errors) -> Scan | None:
        """Try all places of the step at ``place`` beside ``others``; ``None`` where there is no room."""
        low, high = self.window(place, others)
        low, high = low + self.least, high - self.least
        return scan(self.values, self.columns(others), found, low, high) if low <= high else None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The steps that stand: their places, in order, how likely noise makes each, and the errors around them."""

    places: tuple[int, ...]
    p_values: tuple[float, ...]
    errors: Errors


def moved(frame: Frame, places: Sequence[int]) -> list[int]:
    """Move each step to where it explains most beside the others; what has no room is dropped."""
    found, kept = frame.errors(places), list(places)
    for place in places:
        others = [one for one in kept if one != place]
        tried = frame.scan(place, others, found)
        kept = sorted([*others, tried.best] if tried else others)
    return kept


def prune(frame: Frame, places: Sequence[int], alpha: float) -> Kept:
    """Drop the least likely step until all that are left stand together at ``alpha``.

    From many steps to few, because a rise that is taken back shows only beside its own end. The step's p is that of the
    highest score between its neighbours, times how many such stretches the history has room for, and Holm's procedure
    ("A simple sequentially rejective multiple test procedure", 1979) holds them all to alpha.
    """
    kept, seen = sorted(set(places)), set()
    stands: Kept | None = None
    for _ in range(max(_ROUNDS, len(kept) + _MORE)):
        settled = tuple(kept) in seen
        seen.add(tuple(kept))
        found = frame.errors(kept)
        p_values = []
        for place in list(kept):
            others = [one for one in kept if one != place]
            tried = frame.scan(place, others, found)
            if tried is None:
                kept = others
                continue
            p_values.append(_adjusted(frame, tried, place, others))
            kept = sorted([*others, tried.best])
        if not kept:
            break
        if not holm(p_values, alpha):
            stands = None
            del kept[int(np.argmax(p_values))]
            continue
        stands = Kept(places=tuple(kept), p_values=tuple(p_values), errors=found)
        if settled:
            break
    return stands if stands and kept else Kept(places=(), p_values=(), errors=frame.errors(()))


def _adjusted(frame: Frame, tried: Scan, place: int, others: Sequence[int]) -> float:
    """Return the p of a step, times the number of stretches as short as that to the nearest other step.

    That one was chosen too: a rise that is taken back after 5 points could have been at any of n / 5 places.
    """
    nearest = min((abs(place - other) for other in others), default=len(frame.values))
    return min(1.0, tried.p_value() * len(frame.values) / nearest)


def holm(p_values: Sequence[float], alpha: float) -> bool:
    """Say whether Holm's procedure rejects all: the smallest p at alpha / n, the next at alpha / (n - 1), and so on."""
    ordered = sorted(p_values)
    return all(p <= alpha / (len(ordered) - index) for index, p in enumerate(ordered))


def cost(frame: Frame, kept: Kept, correlation: float, more: int = 0) -> float:
    """Return the Bayesian information criterion of levels with these steps, and of ``more`` numbers beside.

    A step is two numbers, its size and its place. The first place is free: between one step and a slope that explain as
    well, the step is likelier in a history of code; between a staircase and a slope, the slope. What is compared must
    have one ``correlation``: a bad explanation would else pass as noise that resembles itself. Schwarz, "Estimating the
    dimension of a model" (1978).
    """
    count, columns = len(frame.values), frame.columns(kept.places)
    left = frame.values - columns @ coefficients(frame.values, columns, correlation)
    square = float((whiten(left, correlation) ** 2).sum())
    numbers = max(2 * len(kept.places) - 1, 0) + more
    return count * math.log(max(square, 1e-300)) + math.log(count) * numbers


def without(frame: Frame, known: Array) -> Frame:
    """Return the frame with other known columns."""
    return replace(frame, known=known)
