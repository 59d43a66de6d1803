"""The store: run folders at any URL, and an index of them that is brought up to date before it is asked."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qwenperf.errors import NothingMeasuredError, QwenperfError, RecordError, StoreError, UnknownNameError
from qwenperf.schema.codec import loads
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.names import folder_name
from qwenperf.schema.records import RunRecord
from qwenperf.schema.series import Series
from qwenperf.store.aliases import Aliases, read_aliases
from qwenperf.store.answers import to_series
from qwenperf.store.base import RECORD, Added, Problem, Source, StoredRun, Window
from qwenperf.store.index import Index
from qwenperf.store.index_file import index_file
from qwenperf.store.own_file import NOTE, own_aliases
from qwenperf.store.places import Place, open_place
from qwenperf.store.rows import CANARIES, Rows, rows_from, rows_of
from qwenperf.store.told import is_told_again

_ALL = Window()
_NO_NAME = "the name of this folder is not UTF-8: rename it"
_BATCH = 64
"""Folders read between two commits of the index: what is read is kept when the rest is interrupted."""


def open_store(url: str, *aliases: tuple[Any, str]) -> DirectoryStore:
    """Open the store at a path or URL. ``aliases``: tables of renamed cases beside the store's own, with their origin.

    Raises:
      StoreError: no driver for the URL, or a store that this version cannot read.
      ConfigError: aliases that contradict each other; names both.
    """
    place = open_place(url)
    return DirectoryStore(place, read_aliases(*aliases, (own_aliases(place), f"{url}/{NOTE} [aliases]")))


class DirectoryStore:
    """Runs at a place. The index is brought up to date when it is first asked, and by ``refresh``."""

    def __init__(self, place: Place, aliases: Aliases) -> None:
        self.place, self.aliases = place, aliases
        self._fresh = False
        self._unnamed: list[str] = []
        self._cases: Mapping[str, Sequence[str]] | None = None

    @functools.cached_property
    def _index(self) -> Index:
        """The index, opened by the first question: who only adds runs needs none."""
        return Index(index_file(self.place.key) if self.place.shared else None)

    @property
    def url(self) -> str:
        """Where it is, as people would type it."""
        return self.place.url

    def add(self, source: Source) -> Added:
        """Add a run, whole or not at all; one that is there with the same content gets the files that it lacks.

        Raises:
          StoreError: another run of this id is there, or the store cannot be written to.
          RecordError: a run without a time, which has no place in a history.
        """
        folder = folder_name(source.record.id)
        rows_of(source.record, folder)
        self._fresh = False
        try:
            self.place.put(folder, source.data, source.files)
        except FileExistsError:
            return self._again(source, folder)
        return Added.ADDED

    def runs(self, window: Window = _ALL) -> Sequence[StoredRun]:
        """Return the runs in a window, in the order of the history."""
        return self._asked().runs(window)

    def get(self, run: str) -> RunRecord:
        """Return a run.

        Raises:
          UnknownNameError: no such run; offers the nearest.
          RecordError: it cannot be read.
        """
        folder = self._asked().folder_of(run)
        if folder is None:
            raise UnknownNameError("run", run, (one.run for one in self.runs()))
        return self.read(folder)

    def read(self, folder: str) -> RunRecord:
        """Return the run in a folder, all of it checked; errors as ``get``."""
        source = f"{self.url}/{folder}/{RECORD}"
        for _, data in self.place.records([folder]):
            if isinstance(data, bytes):
                return loads(_text(data, source), source)
            raise RecordError(f"{source} {data or 'is not there'}.")
        raise RecordError(f"{source} is not there.")

    def cases(self) -> Mapping[str, Sequence[str]]:
        """Return the metrics of each case, by its present name."""
        index = self._asked()
        if self._cases is None:
            found: dict[str, list[str]] = {}
            for case, metrics in index.cases().items():
                found.setdefault(self.aliases.name(case), []).extend(metrics)
            self._cases = {case: sorted(set(names) - CANARIES.keys()) for case, names in sorted(found.items())}
        return self._cases

    def series(self, case: str, metric: str, window: Window = _ALL, *, latest_unit: bool = False) -> Series:
        """Return one metric of one case over time; errors as ``Store.series``, and ``latest_unit`` as ``to_series``."""
        index = self._asked()
        names = self.aliases.names(case)
        found = index.series_of(names, metric)
        if not found:
            return self._nothing(names[0], metric)
        if len({kind[0] for kind in found.values()}) > 1:
            self._check_renamed(names[0], found)
        rows = index.points(list(found), window)
        return to_series(names[0], metric, found, rows, self.url, latest_unit=latest_unit)

    def committed(self, prefix: str) -> list[tuple[str, float]]:
        """Return the commits that begin so, and when each was made in seconds since 1970."""
        return self._asked().committed(prefix)

    def problems(self) -> list[Problem]:
        """Return the folders whose runs cannot be used, and why."""
        problems = self._asked().problems()
        return [*problems, *(Problem(folder=ascii(name)[1:-1], message=_NO_NAME) for name in self._unnamed)]

    def counts(self) -> dict[str, int]:
        """Return how many runs, series and points the index has."""
        return self._asked().counts()

    def read_note(self, name: str) -> bytes | None:
        """Return a file that is kept beside the runs; ``None`` where there is none."""
        return self.place.note(name)

    def write_note(self, name: str, data: bytes) -> None:
        """Keep a file beside the runs, whole or not at all; its name ends in ``.json`` or ``.toml``."""
        if folder_name(name) == name:
            raise StoreError(f"{name!r} could be a run's folder.", advice="End it in .json or .toml.")
        self.place.write_note(name, data)

    def refresh(self) -> None:
        """Bring the index up to date with the folders: read what is new or has changed, forget what is gone.

        Where there is no room for it, no right to write it or damage in it, this store is indexed in memory.
        """
        try:
            self._fill()
        except StoreError:
            if self._index.file is None:
                raise
            self._index = Index(None)
            self._fill()

    def _fill(self) -> None:
        # In this order: what another process adds and indexes in between is not taken for gone.
        known = self._index.stamps()
        found = self.place.listing()
        there = {folder: stamp for folder, stamp in found.items() if _is_text(folder)}
        self._unnamed = sorted(found.keys() - there.keys())
        self._cases = None
        # What is another run by now is gone too: of what it was, a copy may be the only one. No stamp: it was not read.
        gone = (one for one, stamp in known.items() if one not in there or stamp not in {"", there[one]})
        self._index.drop(list(gone))
        known = self._index.stamps()
        new = sorted(folder for folder, stamp in there.items() if known.get(folder) != stamp)
        for start in range(0, len(new), _BATCH):
            self._index.put(list(self._found(new[start : start + _BATCH], there)))
        self._fresh = True

    def reindex(self) -> dict[str, int]:
        """Make the index anew from the runs, and return how many runs, series and points there are."""
        try:
            self._index.clear()
            self._fill()
        except StoreError:  # what is broken inside cannot be emptied
            self._index.throw_away()
            del self._index
            self.refresh()
        return self.counts()

    def _asked(self) -> Index:
        if not self._fresh:
            self.refresh()
        return self._index

    def _found(self, folders: Sequence[str], stamps: Mapping[str, str]) -> Iterator[tuple[str, str, str, Rows | str]]:
        for folder, data in self.place.records(folders):
            if isinstance(data, str):
                yield folder, "", "", data  # no stamp: it may be readable the next time
            elif data is not None:
                digest = hashlib.sha256(data).hexdigest()
                try:
                    rows: Rows | str = rows_from(data, folder, RECORD)
                except RecordError as error:
                    rows = str(error)
                yield folder, stamps[folder], digest, rows

    def _again(self, source: Source, folder: str) -> Added:
        """Compare with the run that is there, and add files that it lacks."""
        for _, there in self.place.records([folder]):
            if not isinstance(there, bytes):
                raise StoreError(f"{self.url}/{folder} is there, and its {RECORD} {there or 'is not'}.")
            if there != source.data and not _is_same(there, source.record):
                advice = "A run in a store is not changed: give the other one an id of its own."
                raise StoreError(f"{self.url} has another run with the id {source.record.id!r}.", advice=advice)
        return Added.COMPLETED if self.place.complete(folder, source.files) else Added.ALREADY

    def _nothing(self, case: str, metric: str) -> Series:
        """Return the empty series of a canary that nobody measured; refuse everything else that is not there."""
        cases = self.cases()
        if not cases:
            raise NothingMeasuredError(f"{self.url} has no measured case.", advice="`qwenperf store check` says why.")
        if case not in cases:
            raise UnknownNameError("case", case, cases)
        if metric in CANARIES:
            return Series(case=case, metric=metric, unit=CANARIES[metric], direction=Direction.HIGHER, kind=Kind.TIMED)
        raise UnknownNameError(f"metric of {case}", metric, cases[case])

    def _check_renamed(self, case: str, found: Mapping[int, tuple[str, ...]]) -> None:
        """Refuse two cases of one run under one name: they are two, whatever the aliases say."""
        clash = self._index.clash(list(found))
        if clash is not None:
            run, first, second = clash
            advice = "An alias is for a case that was renamed, not for two that exist."
            raise StoreError(f"run {run} has {first} and {second}, which the aliases say are {case}.", advice=advice)


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _is_same(there: bytes, record: RunRecord) -> bool:
    try:
        known = loads(_text(there, ""))
        return known == record or is_told_again(known, record)
    except QwenperfError:
        return False


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except ValueError as error:
        raise RecordError(f"{source} is not UTF-8: {error}.") from error
