"""Comparisons: kept once, whole, and found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from qwenperf.service.arrivals import ArrivedComparison
from qwenperf.service.db.projects import charge, rows_bytes
from qwenperf.service.db.runs import keep_verdicts
from qwenperf.service.db.tables import comparisons, records
from qwenperf.service.problems import ConflictError


def keep(connection: Connection, project_id: int, arrived: ArrivedComparison, *, at: int, by: str) -> tuple[int, bool]:
    """Keep a comparison and return its number, and whether it is new.

    Raises:
      ConflictError: another comparison of this name is there.
      Problem: 413, the project has no room.
    """
    content = arrived.content
    mine = select(comparisons.c.id).where(comparisons.c.project_id == project_id)
    known = connection.execute(mine.where(comparisons.c.sha256 == content.sha256)).scalar()
    if known is not None:
        return int(known), False
    if connection.execute(mine.where(comparisons.c.name == arrived.name)).first() is not None:
        raise ConflictError(
            f"another comparison {arrived.name!r} is there, with other content.",
            advice="A comparison is never changed; give this one an id of its own.",
        )
    rows = rows_bytes(verdicts=len(arrived.verdicts))
    charge(connection, project_id, len(content.body) + rows)
    kept = {"body": content.body, "size": content.size, "rows_bytes": rows}
    record = insert(records).values(kept).returning(records.c.id)
    values = arrived.comparison | {
        "project_id": project_id, "name": arrived.name, "sha256": content.sha256, "received_at": at, "pushed_by": by,
        "record_id": connection.execute(record).scalar_one(),
    }  # fmt: skip
    number: int = connection.execute(insert(comparisons).returning(comparisons.c.id), values).scalar_one()
    keep_verdicts(connection, arrived.verdicts, project_id=project_id, comparison_id=number)
    return number, True


def by_name(connection: Connection, project_id: int, name: str) -> Row[Any] | None:
    """Return a comparison; ``None`` where there is none of this name."""
    query = select(comparisons).where(comparisons.c.project_id == project_id, comparisons.c.name == name)
    return connection.execute(query).first()


def recent(
    connection: Connection,
    project_id: int,
    *,
    limit: int = 50,
    before: int | None = None,
    behind: tuple[int, int] | None = None,
) -> Sequence[Row[Any]]:
    """Return comparisons, the latest first; ``before`` and ``behind`` as for runs."""
    query = select(comparisons).where(comparisons.c.project_id == project_id)
    if before is not None:
        query = query.where(comparisons.c.created_at < before)
    if behind is not None:
        older = comparisons.c.created_at < behind[0]
        query = query.where(older | ((comparisons.c.created_at == behind[0]) & (comparisons.c.id < behind[1])))
    return connection.execute(
        query.order_by(comparisons.c.created_at.desc(), comparisons.c.id.desc()).limit(limit)
    ).all()
