"""Brings a database to the tables that this version knows; never back: a backup is the way back."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from qwenperf.errors import UsageError
from qwenperf.service.db.database import translated
from qwenperf.service.db.engines import postgresql_engine, sqlite_engine

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 7_711_865
"""Number of the advisory lock that lets one process at a time migrate a PostgreSQL database."""


def upgrade(url: str) -> tuple[str | None, str]:
    """Run the migrations that are missing, all or none; return the versions before and after.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
      UsageError: the database is of a later version than this.
    """
    is_sqlite = url.startswith("sqlite")
    engine = sqlite_engine(url, pool_size=1, writes=True) if is_sqlite else postgresql_engine(url, pool_size=1)
    try:
        with translated(), engine.begin() as connection:
            if not is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                # An index of a large table takes longer than any answer may.
                connection.execute(text("SET LOCAL statement_timeout = 0"))
            before = version(connection)
            _check_known(before)
            if before != newest():
                config = _config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
            return before, newest()
    finally:
        engine.dispose()


def version(connection: Connection) -> str | None:
    """Return the version of a database; ``None`` for one without tables of ours."""
    return MigrationContext.configure(connection).get_current_revision()


@cache
def newest() -> str:
    """Return the version that this code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def check_version(connection: Connection) -> None:
    """Refuse a database that this version cannot work with.

    Raises:
      UsageError: it lacks migrations, or has ones that this version does not know.
    """
    seen = version(connection)
    _check_known(seen)
    if seen != newest():
        raise UsageError(
            f"the database is at version {seen or 'none'} and this qwenperf needs {newest()}.",
            advice="Run `qwenperf db upgrade` with the same --data or --database.",
        )


def check_serving(connection: Connection) -> None:
    """Refuse a database that a process which has begun to serve cannot go on with.

    One that a later version has upgraded meanwhile is none of these: migrations add, and rows of the version before
    them stay right, so that processes of both answer until the last of the old ones is replaced.

    Raises:
      UsageError: it has no tables, or lacks migrations.
    """
    seen = version(connection)
    if seen is None or seen in _known():
        check_version(connection)


@cache
def _known() -> frozenset[str]:
    return frozenset(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _check_known(seen: str | None) -> None:
    if seen is not None and seen not in _known():
        raise UsageError(
            f"the database is at version {seen}, which is later than this qwenperf knows.",
            advice="Use the qwenperf that upgraded it, or restore a backup.",
        )


def _config() -> Config:
    config = Config()
    # Alembic reads its options with interpolation.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
