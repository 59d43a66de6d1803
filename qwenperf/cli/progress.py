"""Progress on stderr: which case, doing what, for how long. Moving only on a terminal; plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from qwenperf.cli.heartbeat import EVERY_S, Heartbeat
from qwenperf.cli.output import console
from qwenperf.cli.streams import say
from qwenperf.schema.records import CaseRecord, Status
from qwenperf.units import seconds
from qwenperf.workloads.case import Case


def outcome_line(record: CaseRecord, number: int, total: int) -> str:
    """Say how a case ended and how long it took."""
    status = record.status.value.replace("_", " ")
    took = "" if record.wall_s is None else f" in {seconds(record.wall_s)}"
    why = "" if record.status is Status.MEASURED else ". It is told below."
    return f"[{number}/{total}] {record.id}: {status}{took}{why}"


class PlainProgress:
    """One line for each thing that begins or ends, for logs; and one now and then while nothing does.

    Whoever looks at a log of CI can tell a long compile from a hang.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._number = self._total = 0
        self._start = time.monotonic()
        self._phase = ""
        self._heart = Heartbeat(self._beat, every_s)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heart.stop()

    def _beat(self) -> None:
        if self._phase:
            say(f"    still {self._phase} (+{self._elapsed()})")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._start:.1f} s"

    def case_started(self, case: Case, number: int, total: int) -> None:
        """Announce a case."""
        self._number, self._total, self._start = number, total, time.monotonic()
        self._say(f"[{number}/{total}] {case.id} (at most {seconds(case.time_limit_s)})", "starting")

    def phase(self, case: Case, name: str) -> None:  # noqa: ARG002  (the protocol's signature)
        """Announce a phase, with the time since the case began."""
        self._say(f"    {name} (+{self._elapsed()})", name)

    def case_ended(self, record: CaseRecord) -> None:
        """Say how a case ended."""
        self._say(outcome_line(record, self._number, self._total), "")

    def _say(self, line: str, phase: str) -> None:
        self._phase = phase
        self._heart.news()
        say(line)


class LiveProgress:
    """A spinner that moves, with the phase and the seconds of the case; ended cases stay as lines above it."""

    def __init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console(sys.stderr), transient=True)
        self._task = self._progress.add_task("starting", total=None)
        self._number = self._total = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def case_started(self, case: Case, number: int, total: int) -> None:
        """Restart the seconds for a case."""
        self._number, self._total = number, total
        self._progress.reset(self._task)
        self.phase(case, "starting")

    def phase(self, case: Case, name: str) -> None:
        """Show a phase."""
        self._progress.update(self._task, description=f"[{self._number}/{self._total}] {case.id}: {name}")

    def case_ended(self, record: CaseRecord) -> None:
        """Keep a line about a case that ended."""
        self._progress.console.print(outcome_line(record, self._number, self._total))


def progress() -> PlainProgress | LiveProgress:
    """Return what suits stderr."""
    return LiveProgress() if sys.stderr.isatty() else PlainProgress()
