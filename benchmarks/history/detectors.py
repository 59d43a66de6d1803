"""The detectors that are compared: each says at which points new levels begin, and whether the history drifted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.history.series import CORRELATION, NOISE, Array, History
from qwenperf.gate.history import judge_series
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.regressions import Form
from qwenperf.schema.series import Point, Series
from qwenperf.stats.history_candidates import step_detect
from qwenperf.stats.history_model import Errors
from qwenperf.stats.history_places import NEIGHBOURS, scan

_START = datetime(2026, 1, 1, tzinfo=UTC)
_EDGE = 5


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a detector says. ``sizes`` and ``ranges`` (first and last possible place) by place, where it tells them.

    ``crept`` is a sum that is told beside what is reported: the drift, or several steps.
    """

    places: tuple[int, ...] = ()
    drifted: bool = False
    crept: bool = False
    sizes: Mapping[int, tuple[float, float]] | None = None
    ranges: Mapping[int, tuple[int, int]] | None = None

    @property
    def anything(self) -> bool:
        """Whether any change is reported."""
        return bool(self.places) or self.drifted


def as_series(history: History) -> Series:
    """Return a history as a store would: a run an hour."""
    return Series(
        case="synthetic",
        metric="tpot_s",
        unit="s",
        direction=Direction.LOWER,
        kind=Kind.TIMED,
        points=tuple(
            Point(value=float(value), run=f"r{index}", measured_at=(_START + timedelta(hours=index)).isoformat())
            for index, value in enumerate(history.values)
        ),
    )


def ours(history: History) -> Said:
    """Ask ``qwenperf regressions``' own function."""
    released = (_START + timedelta(hours=history.released)).isoformat() if history.released else ""
    judged = judge_series(as_series(history), released_at=released)
    found = [one for one in (*judged.regressions, *judged.improvements) if one.form is Form.STEP]
    drifts = [one for one in (*judged.regressions, *judged.improvements) if one.form is Form.DRIFT]
    by_place = {int(one.run[1:]): one for one in found}
    return Said(
        places=tuple(sorted(by_place)),
        drifted=bool(drifts),
        crept=judged.crept is not None,
        sizes={place: one.interval or (one.size, one.size) for place, one in by_place.items()},
        ranges={place: (int(one.first_run[1:]), int(one.end_run[1:])) for place, one in by_place.items()},
    )


def asv_steps(history: History) -> Said:
    """Ask asv for every level that it sees: ``asv.step_detect.detect_steps``, as its graphs draw them."""
    return Said(places=tuple(step[0] for step in _asv_levels(history.values.tobytes())[1:]))


def asv_regressions(history: History) -> Said:
    """Ask asv for what ``asv publish`` lists as regressions: of 5% or more, its default."""
    found = step_detect().detect_regressions(_asv_levels(history.values.tobytes()), 0.05)[2]
    return Said(places=tuple(one[1] for one in found or ()))


@lru_cache(maxsize=2000)
def _asv_levels(values: bytes) -> list[Any]:
    """Return asv's levels once for both of its answers."""
    found: list[Any] = step_detect().detect_steps(np.frombuffer(values).tolist())
    return found


PEERS = {"asv, every step": asv_steps, "asv, regressions of 5%": asv_regressions}


def best_place(history: History, kind: str) -> int | None:
    """Return the place that is nearest most often, for who knows that there is one step and the law of the noise.

    The middle of the eleven places that are likeliest together: nobody who sees these points only can be within 5 of
    the truth more often. ``None`` for noise that is not normal, whose likelihood is another one.
    """
    if kind == "heavy-tailed":
        return None
    r = CORRELATION if kind != "iid" else 0.0
    values = np.log(history.values)
    known = Errors(correlation=r, deviation=NOISE * math.sqrt(1 - r * r), freedom=len(values))
    tried = scan(values, np.ones((len(values), 1)), known, _EDGE, len(values) - _EDGE)
    around: Array = np.convolve(tried.chances(), np.ones(2 * NEIGHBOURS + 1))[NEIGHBOURS:-NEIGHBOURS]
    return int(tried.places[int(np.argmax(around))])
