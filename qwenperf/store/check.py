"""Looks a store over: every run read whole, and held against what the index says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qwenperf.errors import RecordError
from qwenperf.schema.names import folder_name
from qwenperf.store.base import Problem, StoredRun
from qwenperf.store.directory import DirectoryStore
from qwenperf.store.rows import rows_of

_STALE = "the index says otherwise: `qwenperf store reindex` makes it anew"


def check_store(store: DirectoryStore) -> tuple[list[Problem], int]:
    """Return what is wrong with the runs of a store, and how many runs a history has.

    Raises:
      StoreError: the store cannot be listed or read at all.
    """
    store.refresh()
    runs = store.runs()
    return [*store.problems(), *_problems(store, runs)], len(runs)


def _problems(store: DirectoryStore, runs: Sequence[StoredRun]) -> Iterator[Problem]:
    points, all_read = 0, not store.problems()
    for known in runs:
        try:
            record = store.read(known.folder)
            rows = rows_of(record, known.folder)
        except RecordError as error:
            yield Problem(folder=known.folder, message=str(error))
            all_read = False
            continue
        points += len(rows.points)
        if rows.run != known:
            yield Problem(folder=known.folder, message=_STALE)
        elif folder_name(record.id) != known.folder:
            message = f"holds run {record.id}; added again, it would be there twice: rename the folder."
            yield Problem(folder=known.folder, message=message)
    counted = store.counts()["points"]
    if counted != points and all_read:
        yield Problem(folder="(all)", message=f"the runs have {points} points and the index {counted}: {_STALE}")
