"""An index of a store's runs in SQLite: made from the runs, asked instead of them, thrown away at any time.

Several processes may read and write one index at once. A file that is no index, or one of another version, is replaced
by an empty one, and filled from the runs by whoever asks next.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from qwenperf.errors import StoreError
from qwenperf.store import tables
from qwenperf.store.base import Problem, StoredRun, Window
from qwenperf.store.index_file import connect, remove
from qwenperf.store.rows import PointRow, Rows


class Index:
    """What is known of the runs in a store. ``file``: where it is kept, ``None`` for in memory only."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._series: dict[tuple[str, ...], int] = {}
        self._connection = connect(file)
        # Python warns of connections that nobody closes, and stores are opened for one question.
        weakref.finalize(self, self._connection.close)

    def throw_away(self) -> None:
        """Close the index and remove its file."""
        self._connection.close()
        try:
            remove(self.file)
        except OSError as error:
            raise StoreError(f"cannot remove {self.file}: {error.strerror or error}.") from error

    def clear(self) -> None:
        """Forget everything."""
        with self._writing():
            for table in ("points", "series", "runs"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608  (our own names)

    def stamps(self) -> dict[str, str]:
        """Return what each known folder looked like when it was read."""
        return dict(self._ask("SELECT folder, stamp FROM runs"))

    def problems(self) -> list[Problem]:
        """Return the folders that could not be read, and why."""
        found = self._ask("SELECT folder, problem FROM runs WHERE problem != '' ORDER BY folder")
        return [Problem(folder=folder, message=message) for folder, message in found]

    def drop(self, folders: Sequence[str]) -> None:
        """Forget folders, and those with problems: a copy may be the only one now."""
        if not folders:
            return
        with self._writing():
            for folder in folders:
                self._forget(folder)
            self._connection.execute("DELETE FROM runs WHERE problem != ''")
            self._connection.execute(tables.DROP_EMPTY_SERIES)

    def put(self, found: Sequence[tuple[str, str, str, Rows | str]]) -> None:
        """Take folders in: name, stamp, digest of the record, and its rows or what is wrong with it."""
        with self._writing():
            forgotten = [self._forget(folder) for folder, *_ in found]
            for folder, stamp, digest, rows in found:
                problem = rows if isinstance(rows, str) else self._copied(rows.run, digest)
                if problem:
                    self._connection.execute(tables.INSERT_PROBLEM, (folder, stamp, digest, problem))
                elif isinstance(rows, Rows):
                    self._insert(stamp, digest, rows)
            if any(forgotten):
                self._connection.execute(tables.DROP_EMPTY_SERIES)

    def runs(self, window: Window) -> list[StoredRun]:
        """Return the runs in a window, the oldest first."""
        text, values = _conditions(window, "runs")
        query = tables.RUNS.format(conditions=text)
        return [_stored(row) for row in reversed(self._ask(query, *values, _limit(window)))]

    def folder_of(self, run: str) -> str | None:
        """Return the folder of a run."""
        found = self._ask("SELECT folder FROM runs WHERE name = ? AND problem = ''", run)
        return str(found[0][0]) if found else None

    def cases(self) -> dict[str, list[str]]:
        """Return the metrics of each case."""
        found: dict[str, list[str]] = {}
        query = "SELECT DISTINCT case_id, metric FROM series ORDER BY case_id, metric"
        for case, metric in self._ask(query):
            found.setdefault(case, []).append(metric)
        return found

    def series_of(self, cases: Sequence[str], metric: str) -> dict[int, tuple[str, ...]]:
        """Return case, unit, direction, kind and version of each series that is this metric of one of these cases."""
        marks = ", ".join("?" * len(cases))
        query = (
            f"SELECT id, case_id, unit, direction, kind, version FROM series WHERE metric = ? AND case_id IN ({marks})"  # noqa: S608  (marks)
        )
        return {row[0]: tuple(row[1:]) for row in self._ask(query, metric, *cases)}

    def points(self, series: Sequence[int], window: Window) -> list[tuple[Any, ...]]:
        """Return the columns of ``tables.POINTS`` for a window, the oldest first."""
        text, values = _conditions(window, "points")
        query = tables.POINTS.format(series=", ".join(map(str, series)), conditions=text)
        return self._ask(query, *values, _limit(window))[::-1]

    def clash(self, series: Sequence[int]) -> tuple[str, str, str] | None:
        """Return a run that has two cases among these series, and both."""
        query = tables.CLASHES.format(series=", ".join(map(str, series)))
        found = self._ask(query)
        return (found[0][0], found[0][1], found[0][2]) if found else None

    def committed(self, prefix: str) -> list[tuple[str, float]]:
        """Return the commits that begin so, and when each was made."""
        query = """SELECT sha, min(at) FROM runs WHERE problem = '' AND committed_at != ''
          AND substr(sha, 1, length(?)) = ? GROUP BY sha"""
        return self._ask(query, prefix, prefix)

    def counts(self) -> dict[str, int]:
        """Return how many runs, series and points there are."""
        queries = {
            "runs": "SELECT count(*) FROM runs WHERE problem = ''",
            "series": "SELECT count(*) FROM series",
            "points": "SELECT count(*) FROM points",
        }
        return {name: self._ask(query)[0][0] for name, query in queries.items()}

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except UnicodeEncodeError:  # what is not UTF-8 is the name of nothing here
            return []
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _forget(self, folder: str) -> bool:
        """Forget a folder; say whether it was known."""
        known = self._ask("SELECT id, at, measured FROM runs WHERE folder = ?", folder)
        for found in known:
            self._connection.execute(tables.DROP_POINTS, found)
            self._connection.execute("DELETE FROM runs WHERE id = ?", found[:1])
        return bool(known)

    def _copied(self, run: StoredRun, digest: str) -> str:
        """Say that a run of this id is there already; empty where it is not."""
        query = "SELECT folder, digest FROM runs WHERE name = ? AND problem = ''"
        for folder, known in self._ask(query, run.run):
            return f"is {'a copy' if known == digest else 'another run with the id'} of {folder}"
        return ""

    def _insert(self, stamp: str, digest: str, rows: Rows) -> None:
        values = (stamp, digest, rows.measured, *astuple(rows.run))
        run = self._connection.execute(tables.INSERT_RUN, values).lastrowid
        at, measured = rows.run.at, rows.measured
        self._connection.executemany(
            tables.INSERT_POINT,
            (
                (
                    self._id(one),
                    at,
                    measured,
                    run,
                    one.value,
                    one.low,
                    one.high,
                    one.coverage,
                    one.samples,
                    one.trace,
                    one.reading,
                )
                for one in rows.points
            ),
        )

    def _id(self, point: PointRow) -> int:
        """Return the series of a point; a new one where there is none yet."""
        key = (point.case, point.metric, point.unit, point.direction, point.kind, point.version)
        if key not in self._series:
            self._connection.execute(tables.INSERT_SERIES, key)
            self._series[key] = self._ask(tables.SERIES, *key)[0][0]
        return self._series[key]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write whole or not at all; others wait, and ids that they gave meanwhile are looked up again."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._series.clear()
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: sqlite3.Error) -> StoreError:
        place = f"the index {self.file}" if self.file else "the index in memory"
        advice = "It may be deleted at any time, and QWENPERF_CACHE names another folder for it."
        return StoreError(f"{place}: {error}.", advice=advice)


def _conditions(window: Window, at: str) -> tuple[str, list[object]]:
    """Return what a window asks of a row, as SQL and its values; ``at`` is the table that has the order."""
    parts: Mapping[str, list[object]] = {
        f"{at}.at >= ?": [] if window.since is None else [window.since.timestamp()],
        "runs.branch = ?": [] if window.branch is None else [window.branch],
        "(substr(runs.environment, 1, length(?)) = ? OR runs.class = ?)": [window.environment] * 3
        if window.environment
        else [],
    }
    asked = {text: values for text, values in parts.items() if values}
    return "".join(f" AND {text}" for text in asked), [value for values in asked.values() for value in values]


def _limit(window: Window) -> int:
    return -1 if window.last is None else window.last


def _stored(row: tuple[object, ...]) -> StoredRun:
    named = dict(zip(StoredRun.__dataclass_fields__, row, strict=True))
    return StoredRun(**{**named, "dirty": bool(named["dirty"]), "interrupted": bool(named["interrupted"])})  # type: ignore[arg-type]
