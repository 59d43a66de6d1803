"""The mark of a backup: a number in its SQLite file, beside all tables, so that no copy of rows takes it along."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from qwenperf.service.db.database import translated
from qwenperf.service.db.engines import sqlite_engine

_BACKUP = 1


def mark_as_backup(connection: Connection) -> None:
    """Say in a SQLite file that it is a backup."""
    connection.exec_driver_sql(f"PRAGMA user_version = {_BACKUP}")


def is_backup(url: str) -> bool:
    """Say whether a database is a backup, which is looked at and never changed.

    Raises:
      ServiceUnavailableError: it cannot be read.
    """
    parts = make_url(url)
    # Opening a file that is not there would make it.
    if parts.get_backend_name() != "sqlite" or not parts.database or not Path(parts.database).is_file():
        return False
    engine = sqlite_engine(url, pool_size=1)
    try:
        with translated(), engine.connect() as connection:
            return bool(connection.exec_driver_sql("PRAGMA user_version").scalar() == _BACKUP)
    finally:
        engine.dispose()
