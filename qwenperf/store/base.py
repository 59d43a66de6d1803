"""What a store of runs is: what goes in, what can be asked, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from qwenperf.schema.records import RunRecord
from qwenperf.schema.series import Series

RECORD = "run.json"
MOST_BYTES = 256_000_000
"""Of a record: what is larger is none."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Which runs or points are wanted; ``None`` wants all.

    Attributes:
      branch: of exactly this name.
      since: committed, or measured where the commit's time is unknown, at this moment or later.
      environment: beginning of the hash of the environment, or an environment class.
      last: so many, the newest.
    """

    branch: str | None = None
    since: datetime | None = None
    environment: str | None = None
    last: int | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A run to be added: its record, the bytes that it was read from, and other files by their path in its folder."""

    record: RunRecord
    data: bytes
    files: Mapping[str, Path] = field(default_factory=dict)


class Added(StrEnum):
    """What adding a run did."""

    ADDED = "added"
    COMPLETED = "completed"
    ALREADY = "already there"


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What is known of a run without reading it. ``at``, which orders runs: seconds since 1970."""

    run: str
    folder: str
    at: float
    measured_at: str
    suite: str = ""
    commit: str = ""
    committed_at: str = ""
    branch: str = ""
    dirty: bool = False
    environment: str = ""
    environment_class: str = ""
    cases: int = 0
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A folder of a store that cannot be used, and why."""

    folder: str
    message: str


class Store(Protocol):
    """Runs, by id, and their metrics over time."""

    @property
    def url(self) -> str:
        """Where it is, as people would type it."""
        ...

    def add(self, source: Source) -> Added:
        """Add a run, whole or not at all; one that is there with the same content is left as it is.

        Raises:
          StoreError: another run of this id is there, or the store cannot be written to.
        """
        ...

    def runs(self, window: Window = ...) -> Sequence[StoredRun]:
        """Return the runs in a window, in the order of the history."""
        ...

    def get(self, run: str) -> RunRecord:
        """Return a run.

        Raises:
          UnknownNameError: no such run; offers the nearest.
        """
        ...

    def cases(self) -> Mapping[str, Sequence[str]]:
        """Return the metrics of each case, by its present name."""
        ...

    def series(self, case: str, metric: str, window: Window = ...) -> Series:
        """Return one metric of one case over time; without points where the window has none.

        Raises:
          UnknownNameError: no such case, or no such metric of it.
          StoreError: the points do not make one series: two units, or two cases of one run under one name.
        """
        ...
