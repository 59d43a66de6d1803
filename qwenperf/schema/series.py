"""One metric of one case over time: the words of history, of change detection and of the service.

A series knows nothing of where it is kept. Its points are in the order of the history: by commit where commits have an
order, by the time of measuring otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenperf.schema.metrics import Direction, Kind


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a series and where it came from.

    Attributes:
      value: in the unit of the series.
      run: id of the run.
      measured_at: when, ISO 8601 with its zone.
      commit: full hash, or empty where the code was no commit.
      committed_at: when, ISO 8601 with its zone, or empty.
      branch: its branch where the run says so.
      environment: short hash of the stable fields of the environment; equal means comparable.
      interval: holds the true value with the coverage that the run states, or ``None``.
      samples: readings behind the value.
      trace: where the run's trace lies, relative to the run, or ``None``.
      accepted: why a change that begins here was accepted, or ``None``.
    """

    value: float
    run: str
    measured_at: str
    commit: str = ""
    committed_at: str = ""
    branch: str = ""
    environment: str = ""
    interval: tuple[float, float] | None = None
    samples: int = 1
    trace: str | None = None
    accepted: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one metric of one case. ``extra`` of points and series is kept by whoever passes them on."""

    case: str
    metric: str
    unit: str
    direction: Direction
    kind: Kind
    points: tuple[Point, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
