"""Progress of compiling on stderr: a line for each program that ends, and one now and then while none does."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from qwenperf.cli.progress import HEARTBEAT_S
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
    if record.extra.get("remembered"):
        return f"{record.id}: the same program was compiled before{took and f',{took}'}"
    return f"{record.id}: compiled{took}"


class AotProgress:
    """A context manager: while it is open, a program that takes long is named every few seconds."""

    def __init__(self, every_s: float = HEARTBEAT_S) -> None:
        self._every_s = every_s
        self._running: dict[str, float] = {}
        self._lock = threading.Lock()
        self._news, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._beat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._news.set()
        self._thread.join()

    def started(self, item: Item) -> None:
        """Remember what is compiled now."""
        with self._lock:
            self._running[item.id] = time.monotonic()

    def ended(self, record: AotCase) -> None:
        """Say how a program ended."""
        with self._lock:
            self._running.pop(record.id, None)
        self._news.set()
        say(ended_line(record))

    def _beat(self) -> None:
        while not self._over:
            if self._news.wait(self._every_s):
                self._news.clear()
                continue
            with self._lock:
                running = dict(self._running)
            for name, start in running.items():
                say(f"    still compiling {name} (+{seconds(time.monotonic() - start)})")
