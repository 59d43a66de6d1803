"""The file of an index: opened, made, replaced where it is none. What cannot be kept on disk is kept in memory."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path

from qwenperf.settings import cache_folder
from qwenperf.store import tables

_WAIT_S = 60.0
_MEMORY = ":memory:"


def index_file(url: str) -> Path | None:
    """Return where the index of a store is kept: in the user's cache, as stores are shared and may be read-only.

    The version of the tables is part of the name, so that two versions of qwenperf do not replace each other's.
    ``None``: there is no such folder and none can be made.
    """
    try:
        folder = cache_folder(os.environ) / "stores"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:20]}.v{tables.VERSION}.sqlite"


def connect(file: Path | None) -> sqlite3.Connection:
    """Return a connection to the index in ``file``, empty where there was none, or none of this version."""
    try:
        return _open(file)
    except sqlite3.OperationalError:  # no room, no right, or somebody holds it: nothing is wrong with the file
        return _open(None)
    except sqlite3.DatabaseError:
        return _replace(file)


def remove(file: Path | None) -> None:
    """Remove an index and what SQLite keeps beside it.

    Raises:
      OSError: the system refuses.
    """
    if file is not None:
        for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
            name.unlink(missing_ok=True)


def _replace(file: Path | None) -> sqlite3.Connection:
    """Open an index in place of a file that is none; in memory where it cannot be replaced."""
    try:
        remove(file)
        return _open(file)
    except (OSError, sqlite3.DatabaseError):
        return _open(None)


def _open(file: Path | None) -> sqlite3.Connection:
    # Closed by whichever thread lets go of it last.
    connection = sqlite3.connect(file or _MEMORY, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not _is_current(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not _is_current(connection):
                _make_tables(connection)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_current(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == tables.VERSION)


def _make_tables(connection: sqlite3.Connection) -> None:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (name,) in connection.execute(names).fetchall():
        quoted = name.replace('"', '""')
        connection.execute(f'DROP TABLE "{quoted}"')
    for statement in tables.CREATE:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {tables.VERSION}")
