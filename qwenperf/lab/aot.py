"""Compiles programs of cases for targets that need not be there, in processes side by side, each kept at once.

What is compiled is in ``aot.json`` before the next program ends, so that an interrupt loses nothing.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qwenperf.aot.platforms import missing_compiler
from qwenperf.aot.remembered import forget_old, is_kept
from qwenperf.aot.topology import Target
from qwenperf.errors import EnvironmentUnfitError, NothingMeasuredError
from qwenperf.lab.aot_children import WORKER, AotOptions, Children
from qwenperf.lab.aot_items import Item, items_of, longest_first, not_compiled, write_items
from qwenperf.lab.process import settings_of
from qwenperf.lab.run_folder import RunFolder, write_text, writing
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import Status
from qwenperf.workloads.case import Case

RECORD = "aot.json"


class Listener(Protocol):
    """Who wants to know what is going on; told from several threads, one at a time."""

    def started(self, item: Item) -> None:
        """``item`` is compiled now."""
        ...

    def ended(self, record: AotCase) -> None:
        """A program has been compiled, or given up."""
        ...


class Silent:
    """Wants to know nothing."""

    def started(self, item: Item) -> None:
        """Hear nothing."""

    def ended(self, record: AotCase) -> None:
        """Hear nothing."""


def run_aot(
    cases: Sequence[Case],
    targets: Sequence[Target],
    *,
    folder: RunFolder,
    options: AotOptions | None = None,
    listener: Listener | None = None,
    judge: Callable[[AotRecord], AotRecord] = lambda record: record,
    commit: Mapping[str, Any] | None = None,
    command: Sequence[str] = WORKER,
) -> AotRecord:
    """Compile every program of ``cases`` for every target and return the judged record.

    ``aot.json`` is rewritten, judged, after each program. An interrupt ends the run: what is compiled is kept and the
    record says ``interrupted``.

    Raises:
      EnvironmentUnfitError: none of the targets has a compiler here, or JAX does not start.
      OutputError: the folder cannot be written to.
    """
    options = options or AotOptions()
    missing = {target.name: missing_compiler(target.platform) for target in targets}
    if all(missing.values()):
        raise EnvironmentUnfitError(". ".join(dict.fromkeys(missing.values())) + ".")
    items = items_of(cases, [target.name for target in targets], options.programs)
    book = Book(
        folder=folder,
        judge=judge,
        listener=listener or Silent(),
        record=AotRecord(
            id=folder.id,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            environment={},
            commit=commit or {},
            declared=tuple(item.id for item in items),
        ),
    )
    for item in items:
        if missing[item.target]:
            book.add(not_compiled(item.to_json(folder), NothingMeasuredError(f"{missing[item.target]}.")))
    if options.remembered is not None:
        forget_old(options.remembered)
    try:
        with _place_of_records(options) as told:
            _compile_all([item for item in items if not missing[item.target]], book, told, command)
            if told.check_repeat:
                compiled = {case.id for case in book.record.cases if case.status is Status.MEASURED}
                twice = [item for item in items if item.id in compiled]
                _compile_all(twice, book, replace(told, again=True), command)
    except KeyboardInterrupt:
        book.interrupt()
    return book.record


@contextmanager
def _place_of_records(options: AotOptions) -> Iterator[AotOptions]:
    """Give what is compiled twice a place for its first record, where none is to be kept or none can be."""
    if not options.check_repeat or (options.remembered is not None and is_kept(options.remembered)):
        yield options
        return
    with writing(Path(tempfile.gettempdir())):
        folder = tempfile.TemporaryDirectory(prefix="qwenperf-aot-records-", ignore_cleanup_errors=True)
    with folder as name:
        yield replace(options, remembered=Path(name))


def _compile_all(items: Sequence[Item], book: Book, options: AotOptions, command: Sequence[str]) -> None:
    for group in _groups(items):
        _compile(group, book, options, command)


def _compile(items: tuple[Item, ...], book: Book, options: AotOptions, command: Sequence[str]) -> None:
    """Compile items whose processes are told the same."""
    with writing(Path(tempfile.gettempdir())):
        shared = tempfile.TemporaryDirectory(prefix="qwenperf-aot-", ignore_cleanup_errors=True)
    with shared as name:
        write_items(Path(name), items, book.folder, options.remembered, again=options.again)
        Children(items=items, place=Path(name), book=book, folder=book.folder, options=options, command=command).run()


def _groups(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Return items by what their processes are told: flags are read once a process."""
    groups: dict[tuple[str, bool], list[Item]] = {}
    for item in items:
        groups.setdefault((settings_of(item.case).xla_flags, item.target == "cuda"), []).append(item)
    return [longest_first(group) for group in groups.values()]


@dataclass(kw_only=True)
class Book:
    """The record so far, on disk after each change; several threads write to it."""

    folder: RunFolder
    judge: Callable[[AotRecord], AotRecord]
    listener: Listener
    record: AotRecord
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, case: AotCase) -> None:
        """Add a case, at its place in the order that was asked for; one that is there already gives way."""
        with self.lock:
            order = {name: number for number, name in enumerate(self.record.declared)}
            others = (one for one in self.record.cases if one.id != case.id)
            cases = sorted((*others, case), key=lambda one: order[one.id])
            self._keep(replace(self.record, cases=tuple(cases)))
            self.listener.ended(next(one for one in self.record.cases if one.id == case.id))

    def started(self, item: Item) -> None:
        """Say that an item is compiled now."""
        with self.lock:
            self.listener.started(item)

    def of_environment(self, environment: Mapping[str, Any]) -> None:
        """Keep what the first process says of its environment: later ones see the load of earlier ones."""
        with self.lock:
            self.record = replace(self.record, environment=self.record.environment or environment)

    def interrupt(self) -> None:
        """Say that the run did not end by itself."""
        with self.lock:
            self._keep(replace(self.record, interrupted=True))

    def _keep(self, record: AotRecord) -> None:
        self.record = self.judge(record)
        write_text(self.folder.path / RECORD, dumps(self.record))
