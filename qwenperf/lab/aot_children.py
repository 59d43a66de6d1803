"""The processes that compile: several at a time, each with a time limit for what it is at, and a log of its noise.

A compiler may crash, hang or run out of memory. That costs the program that it was at: it is recorded, and the next
process goes on with the rest.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from qwenperf.aot.ids import PROGRAMS
from qwenperf.aot.platforms import compiler_environ
from qwenperf.errors import EnvironmentUnfitError, RecordError
from qwenperf.lab.aot_items import Item, claim, without_program
from qwenperf.lab.executor import Ended, Message, execute, log_tail, signal_name
from qwenperf.lab.process import measuring_environ, settings_of
from qwenperf.lab.run_folder import RunFolder
from qwenperf.schema.analysis import AotCase
from qwenperf.schema.codec import aot_case_from_json
from qwenperf.schema.records import Status
from qwenperf.units import seconds
from qwenperf.workloads.flags import with_flags

TIME_LIMIT_S = 600.0
WORKER = (sys.executable, "-P", "-m", "qwenperf.lab.aot_worker")
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class AotOptions:
    """How programs are compiled.

    ``jobs`` processes at a time, ``time_limit_s`` for each program. ``remembered`` is the folder of earlier records;
    ``None`` compiles everything. With ``check_repeat`` each program is compiled once more, by another process, and what
    differs is marked; ``again`` is that second time.
    """

    programs: tuple[str, ...] = PROGRAMS
    jobs: int = 2
    time_limit_s: float = TIME_LIMIT_S
    remembered: Path | None = None
    check_repeat: bool = False
    again: bool = False


class Keeper(Protocol):
    """Who keeps what processes say; told from several threads."""

    def started(self, item: Item) -> None:
        """``item`` is compiled now."""
        ...

    def add(self, case: AotCase) -> None:
        """A program has been compiled, or given up."""
        ...

    def of_environment(self, environment: Mapping[str, Any]) -> None:
        """A process has started."""
        ...


@dataclass(frozen=True, kw_only=True)
class Children:
    """Processes that share ``items``, whose list is in the folder ``place``; all are told the same environment."""

    items: tuple[Item, ...]
    place: Path
    book: Keeper
    folder: RunFolder
    options: AotOptions
    command: Sequence[str]
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        """Compile all items; an interrupt, or an error of one process's thread, ends the others."""
        numbers = count(1)
        threads = [
            threading.Thread(target=self._work, args=(numbers,)) for _ in range(min(self.options.jobs, len(self.items)))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL_S)
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
        if self.failures:
            raise self.failures[0]

    def _work(self, numbers: Any) -> None:
        """Start one process after another until nothing is left for them."""
        try:
            while not self.stop.is_set():
                log = self.folder.log(f"{'again' if self.options.again else 'compiler'}-{next(numbers)}")
                if not _Child(children=self, log=log).run():
                    return
        except BaseException as error:  # noqa: BLE001  (raised again by the thread that waits for this one)
            self.failures.append(error)
            self.stop.set()

    def environ(self) -> dict[str, str]:
        """Return the environment of a process."""
        first = self.items[0]
        told = compiler_environ(measuring_environ(os.environ), cuda=first.target == "cuda")
        return with_flags(told, settings_of(first.case).xla_flags)

    def told(self, number: int) -> dict[str, Any]:
        """Return an item as its process gets it."""
        return self.items[number].to_json(self.folder)


@dataclass(kw_only=True)
class _Child:
    """One process. ``at`` is the item that it compiles, ``ready`` says that JAX has started in it."""

    children: Children
    log: Path
    at: int | None = None
    ready: bool = False

    def run(self) -> bool:
        """Compile what is left; say whether another process is needed for what this one leaves."""
        shared = self.children
        ended = execute(
            [*shared.command, str(shared.place)],
            time_limit_s=shared.options.time_limit_s,
            log=self.log,
            on_message=self._hear,
            environ=shared.environ(),
            renewed_by="item",
            stop=shared.stop,
        )
        if shared.stop.is_set():
            return False
        if self.at is None and not (self.ready and ended.returncode == 0):
            self.at = self._next()  # it came to no item: were none given up, there would be no end of processes
        if self.at is None:
            return False
        shared.book.add(self._failure(shared.told(self.at), ended))
        return True

    def _next(self) -> int | None:
        return next((number for number in range(len(self.children.items)) if claim(self.children.place, number)), None)

    def _hear(self, message: Message) -> None:
        shared = self.children
        if "unfit" in message:
            raise EnvironmentUnfitError(str(message["unfit"]))
        if "environment" in message:
            self.ready = True
            shared.book.of_environment(message["environment"])
        if "item" in message:
            self.at = int(message["item"])
            shared.book.started(shared.items[self.at])
        if "done" in message:
            self.at = None
            shared.book.add(_read(shared.told(int(message["done"]))))

    def _failure(self, item: Mapping[str, Any], ended: Ended) -> AotCase:
        if ended.timed_out:
            limit = seconds(self.children.options.time_limit_s)
            error = f"killed after its time limit of {limit}. A larger --time-limit lets it go on. Log: {self.log}"
            return without_program(item, Status.TIMED_OUT, error, crashed=True)
        how = signal_name(ended.returncode) if ended.returncode < 0 else f"exit code {ended.returncode}"
        said = log_tail(self.log)
        error = f"the compiler's process ended with {how}. Log: {self.log}" + (f"\n{said}" if said else "")
        return without_program(item, Status.FAILED, error, crashed=True)


def _read(item: Mapping[str, Any]) -> AotCase:
    """Return the record that a process left."""
    file = Path(item["record"])
    try:
        return aot_case_from_json(json.loads(file.read_text(encoding="utf-8")), str(file))
    except (OSError, ValueError, RecordError) as error:
        return without_program(item, Status.FAILED, f"its record cannot be read: {error}", crashed=True)
