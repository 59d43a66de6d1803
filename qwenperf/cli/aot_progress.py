"""Progress of compiling on stderr: a line for each program that ends, and one now and then while none does."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from qwenperf.cli.heartbeat import EVERY_S, Heartbeat
from qwenperf.cli.streams import say
from qwenperf.schema.records import Status
from qwenperf.units import seconds

if TYPE_CHECKING:
    from qwenperf.lab.aot_items import Item
    from qwenperf.schema.analysis import AotCase


def ended_line(record: AotCase) -> str:
    """Say how the compiling of one program ended."""
    if record.status is not Status.MEASURED:
        return f"{record.id}: {record.status.value.replace('_', ' ')}. It is told below."
    took = "" if record.compile_s is None else f" in {seconds(record.compile_s)}"
    if record.extra.get("compilations") and not record.extra.get("remembered"):
        unstable = ", ".join(record.program.unstable) if record.program else ""
        return f"{record.id}: compiled again{took}, {f'not the same: {unstable}' if unstable else 'the same numbers'}"
    if record.extra.get("remembered"):
        return f"{record.id}: the same program was compiled before{took and f',{took}'}"
    return f"{record.id}: compiled{took}"


class AotProgress:
    """A context manager: while it is open, a program that takes long is named every few seconds."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._running: dict[str, float] = {}
        self._lock = threading.Lock()
        self._heart = Heartbeat(self._beat, every_s)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heart.stop()

    def started(self, item: Item) -> None:
        """Remember what is compiled now."""
        with self._lock:
            self._running[item.id] = time.monotonic()

    def ended(self, record: AotCase) -> None:
        """Say how a program ended."""
        with self._lock:
            self._running.pop(record.id, None)
        self._heart.news()
        say(ended_line(record))

    def _beat(self) -> None:
        with self._lock:
            running = dict(self._running)
        for name, start in running.items():
            say(f"    still compiling {name} (+{seconds(time.monotonic() - start)})")
