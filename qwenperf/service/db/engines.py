"""Engines: how connections to SQLite and PostgreSQL are set up so that acknowledged means durable."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

_BUSY_MS = 5000
_READER_PAGES_KIB, _WRITER_PAGES_KIB = 4_000, 32_000
_CONNECT_S = 5
_STATEMENT_MS = 30_000


def sqlite_engine(url: str, *, pool_size: int, writes: bool = False) -> Engine:
    """Return an engine of connections that only read, or of the one that writes."""
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_BUSY_MS / 1000,
        connect_args={"check_same_thread": False, "timeout": _BUSY_MS / 1000},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Transactions begin where ``begin`` below says, and not where the driver guesses.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in _pragmas(writes=writes):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        # SQLite's own knows letters of ASCII only; people search names in any script.
        connection.create_function("lower", 1, _lower, deterministic=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _pragmas(*, writes: bool) -> tuple[str, ...]:
    common = (f"busy_timeout = {_BUSY_MS}", "foreign_keys = ON", "temp_store = MEMORY")
    if not writes:
        return (*common, f"cache_size = -{_READER_PAGES_KIB}", "query_only = ON")
    # FULL: in WAL mode a commit is on the disk when it returns; NORMAL would lose the last ones with the power.
    return ("journal_mode = WAL", *common, f"cache_size = -{_WRITER_PAGES_KIB}", "synchronous = FULL")


def postgresql_engine(url: str, *, pool_size: int) -> Engine:
    """Return an engine for PostgreSQL; a connection that the server closed meanwhile is replaced before its use."""
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_CONNECT_S,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": _CONNECT_S,
            "options": f"-c statement_timeout={_STATEMENT_MS} -c timezone=UTC -c synchronous_commit=on",
        },
    )
