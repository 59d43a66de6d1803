"""Statements of every arrival: written as SQL once, and handed to the driver as they are.

SQLAlchemy makes each row's parameters anew from the statement, which for small rows takes longer than keeping them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Insert, Select, Update

_Written = tuple[str, tuple[str, ...] | None, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a statement answers: ``rows``, their values in the order of its columns, and how many rows it changed."""

    rows: Sequence[Sequence[Any]]
    changed: int

    @property
    def number(self) -> int:
        """The only value of the only row."""
        return int(self.rows[0][0])


class Prepared:
    """A statement whose values need no conversion: text, numbers and bytes. ``keys`` are those of each row."""

    def __init__(self, statement: Insert | Update | Select[Any], keys: Sequence[str]) -> None:
        self._statement, self._keys = statement, list(keys)
        self._written: dict[str, _Written] = {}

    def run(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Run it for each of ``rows`` within the transaction of ``connection``; errors as SQLAlchemy's."""
        if rows:
            self._send(connection, rows)

    def ask(self, connection: Connection, **row: Any) -> Answer:
        """Run it for one row, and return what it answers; as ``run``."""
        return self._send(connection, [row])

    def _send(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> Answer:
        text, order, always = self._as_sql(connection)
        whole = [always | row for row in rows] if always else rows
        sent: list[Any] = list(whole) if order is None else [tuple([row[name] for name in order]) for row in whole]
        driver: Any = connection.connection.dbapi_connection
        if isinstance(driver, sqlite3.Connection):
            return _straight(connection, driver, text, sent)
        found = connection.exec_driver_sql(text, sent if len(sent) > 1 else sent[0])
        return Answer(rows=found.all() if found.returns_rows else (), changed=found.rowcount)

    def _as_sql(self, connection: Connection) -> _Written:
        """Return the text for this kind of database, its parameters in order where they have no names, constants."""
        found = self._written.get(connection.dialect.name)
        if found is None:
            insert = isinstance(self._statement, Insert)
            made = self._statement.compile(dialect=connection.dialect, column_keys=self._keys if insert else None)
            order = None if made.positiontup is None else tuple(made.positiontup)
            always = {name: value for name, value in made.params.items() if name not in self._keys}
            found = self._written[connection.dialect.name] = (str(made), order, always)
        return found


def _straight(connection: Connection, driver: sqlite3.Connection, text: str, sent: list[Any]) -> Answer:
    """Ask SQLite past SQLAlchemy, whose part takes several times as long as the rows of an arrival."""
    try:
        cursor = driver.executemany(text, sent) if len(sent) > 1 else driver.execute(text, sent[0])
        return Answer(rows=cursor.fetchall(), changed=cursor.rowcount)
    except sqlite3.Error as error:
        known = connection.dialect.loaded_dbapi.Error
        raise DBAPIError.instance(text, None, error, known, dialect=connection.dialect) from error
