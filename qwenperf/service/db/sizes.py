"""How large records are, without reading them, and their text as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from qwenperf.service.db.tables import comparisons, records, runs

_TABLES = {"run": runs, "comparison": comparisons}


def together(connection: Connection, project_id: int, kind: str, names: Sequence[str]) -> int:
    """Return how many bytes of JSON the records of these names have together."""
    table = _TABLES[kind]
    query = select(func.coalesce(func.sum(records.c.size), 0)).join(table, table.c.record_id == records.c.id)
    found = connection.execute(query.where(table.c.project_id == project_id, table.c.name.in_(names)))
    return int(found.scalar_one())


def packed(connection: Connection, record_id: int) -> Row[Any]:
    """Return the ``body`` of a record as it is kept, and its ``size`` unpacked."""
    query: Select[Any] = select(records.c.body, records.c.size).where(records.c.id == record_id)
    return connection.execute(query).one()
