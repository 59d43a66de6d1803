"""Backups: one moment of a service, as the data folder of a service on SQLite, and back into any database.

Rows are copied table by table through SQLAlchemy, so that a backup of PostgreSQL is a file, and a SQLite service moves
to PostgreSQL by a backup and a restore. A backup bears a mark: served as it is, it is looked at and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select, text

from qwenperf.errors import UsageError
from qwenperf.service.copying import NO_FILES, copy_files
from qwenperf.service.db.database import Database
from qwenperf.service.db.marks import mark_as_backup
from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import file_holds, metadata, runs, sessions, upload_parts, uploads, used_identities
from qwenperf.service.db.upgrade import check_version, upgrade
from qwenperf.service.holding import Hold
from qwenperf.service.settings import DATABASE_FILE, ServiceSettings
from qwenperf.service.unfinished import new_folder

_LEFT_OUT = (uploads, upload_parts, sessions, used_identities, file_holds)
"""What is under way: it is begun again, or nobody's any more."""

_AT_ONCE = 2000


def backup(settings: ServiceSettings, folder: Path, *, with_files: bool = True) -> dict[str, int]:
    """Write a backup and return how many rows, runs, files and bytes of files it has.

    Raises:
      OutputError: the folder is there already, or cannot be written to.
      UsageError: the database is of another version, or a file is missing or damaged.
      ServiceUnavailableError: the database or the files cannot be reached.
    """
    if (
        settings.database_url.startswith("sqlite")
        and not (settings.data / DATABASE_FILE).exists()
        and not settings.database
    ):
        raise UsageError(f"there is no service in {settings.data}.", advice="Give its --data or --database.")
    # Hashes of tokens and private runs are in it.
    with new_folder(folder) as unfinished:
        copied = ServiceSettings(data=unfinished)
        upgrade(copied.database_url)
        source, target = Database(settings.database_url, pool_size=2), Database(copied.database_url, pool_size=2)
        try:
            with source.read() as connection:
                check_version(connection)
            if not with_files:
                return _copy_marked(source, target) | NO_FILES
            with Hold(source) as hold:
                # Of the rows that were copied, and not of those that are there by now.
                return _copy_marked(source, target) | copy_files(target, settings, copied, hold.go_on)
        finally:
            target.close()
            source.close()


def restore(settings: ServiceSettings, folder: Path) -> dict[str, int]:
    """Restore a backup and return what ``backup`` returns.

    Raises:
      UsageError: no backup there, a file of it is missing or damaged, or a service that has data already.
      ServiceUnavailableError: the database or the files cannot be reached.
    """
    saved = ServiceSettings(data=folder)
    if not (folder / DATABASE_FILE).is_file():
        raise UsageError(f"{folder} is no backup: it has no {DATABASE_FILE}.")
    if settings.database_url.startswith("sqlite"):
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    upgrade(settings.database_url)
    upgrade(saved.database_url)
    source, target = Database(saved.database_url, pool_size=2), Database(settings.database_url, pool_size=2)
    try:
        _check_empty(target)
        # Files first: what the database names is there.
        held = copy_files(source, saved, settings, lambda: None)
        return _copy(source, target) | held
    finally:
        target.close()
        source.close()


def _check_empty(target: Database) -> None:
    with target.read() as connection:
        filled = [
            table.name
            for table in metadata.sorted_tables
            if connection.execute(select(func.count()).select_from(table)).scalar_one()
        ]
    if filled:
        raise UsageError(f"the service has data already, in {', '.join(filled[:5])}.", advice="Restore into a new one.")


def _copy_marked(source: Database, target: Database) -> dict[str, int]:
    """Copy every row into a backup, which says that it is one."""
    done = _copy(source, target)
    target.write(mark_as_backup)
    return done


def _copy(source: Database, target: Database) -> dict[str, int]:
    """Copy every row, in one transaction on each side."""
    with source.read() as reading:
        check_version(reading)
        counts = target.write(lambda writing: _copy_tables(reading, writing), wait_s=None)
    return {"rows": sum(counts.values()), "runs": counts[runs.name]}


def _copy_tables(reading: Connection, writing: Connection) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in metadata.sorted_tables:
        counts[table.name] = 0
        if table in _LEFT_OUT:
            continue
        for rows in _rows(reading, table):
            writing.execute(insert(table), rows)
            counts[table.name] += len(rows)
        if writing.dialect.name == "postgresql" and "id" in table.c:
            _go_on_counting(writing, table)
    for row in reading.execute(select(uploads.c.project_id, uploads.c.size)).all():
        charge(writing, row.project_id, -row.size)
    return counts


def _rows(reading: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    found = reading.execution_options(yield_per=_AT_ONCE).execute(select(table))
    for rows in found.partitions():
        yield [dict(row._mapping) for row in rows]  # noqa: SLF001  (SQLAlchemy's public name for it)


def _go_on_counting(writing: Connection, table: Table) -> None:
    """Let new rows be numbered behind those that were copied."""
    largest = writing.execute(select(func.max(table.c.id))).scalar()
    if largest is not None:
        sequence = text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :largest)")
        writing.execute(sequence, {"name": table.name, "largest": largest})
