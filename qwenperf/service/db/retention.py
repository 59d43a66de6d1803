"""Runs go, old ones or one that somebody removes: with their points, in small transactions, never half of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, select, update

from qwenperf.service.db import points as arriving
from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import comparisons, points, records, runs, series, uploads

_AT_ONCE = 200
_NEVER = -1
"""As a number of points at which a series was judged: one that it never has."""


def expire(connection: Connection, project_id: int, before: int) -> int:
    """Remove the oldest runs of a project, of those from before a time, and return how many."""
    old = select(runs.c.id, runs.c.at, runs.c.record_id).where(runs.c.project_id == project_id, runs.c.at < before)
    rows = connection.execute(old.order_by(runs.c.at, runs.c.id).limit(_AT_ONCE)).all()
    if rows:
        _drop(connection, project_id, rows)
    return len(rows)


def remove(connection: Connection, run: Row[Any]) -> None:
    """Remove one run. Its series know of it at once: those that have no other point go, the rest are judged anew."""
    mine = select(series.c.id).where(series.c.project_id == run.project_id)
    here = and_(points.c.series_id.in_(mine), points.c.at == run.at, points.c.run_id == run.id)
    numbers = connection.execute(select(points.c.series_id).where(here)).scalars().all()
    _drop(connection, run.project_id, [run])
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        arriving.recount(connection, some)
        connection.execute(delete(series).where(series.c.id.in_(some), series.c.points == 0))
        connection.execute(update(series).where(series.c.id.in_(some)).values(judged=_NEVER))


def _drop(connection: Connection, project_id: int, rows: Sequence[Any]) -> None:
    """Remove some runs, in the order of their times, and all that is theirs but their files."""
    first, last, numbers = rows[0].at, rows[-1].at, [row.id for row in rows]
    mine = select(series.c.id).where(series.c.project_id == project_id)
    # By the key of the table: each series is asked for one range, and within it for these runs.
    span = and_(points.c.series_id.in_(mine), points.c.at >= first, points.c.at <= last)
    connection.execute(delete(points).where(span, points.c.run_id.in_(numbers)))
    # Uploads under way go with their run; the room that was taken for them is given back first.
    taken = select(func.coalesce(func.sum(uploads.c.size), 0)).where(uploads.c.run_id.in_(numbers))
    charge(connection, project_id, -int(connection.execute(taken).scalar_one()))
    connection.execute(delete(uploads).where(uploads.c.run_id.in_(numbers)))
    connection.execute(delete(runs).where(runs.c.id.in_(numbers)))
    _forget_records(connection, project_id, [row.record_id for row in rows])


def expire_comparisons(connection: Connection, project_id: int, before: int) -> int:
    """Remove the oldest comparisons of a project, of those from before a time, and return how many."""
    old = select(comparisons.c.id, comparisons.c.record_id).where(
        comparisons.c.project_id == project_id, comparisons.c.created_at < before
    )
    rows = connection.execute(old.order_by(comparisons.c.created_at, comparisons.c.id).limit(_AT_ONCE)).all()
    if rows:
        connection.execute(delete(comparisons).where(comparisons.c.id.in_([row.id for row in rows])))
        _forget_records(connection, project_id, [row.record_id for row in rows])
    return len(rows)


def _forget_records(connection: Connection, project_id: int, held: list[int]) -> None:
    size = select(func.coalesce(func.sum(func.length(records.c.body)), 0)).where(records.c.id.in_(held))
    freed = connection.execute(size).scalar_one()
    connection.execute(delete(records).where(records.c.id.in_(held)))
    charge(connection, project_id, -freed)


def recount(connection: Connection, project_id: int) -> None:
    """Write anew what the series of a project know of their points; those that have none go."""
    numbers = connection.execute(select(series.c.id).where(series.c.project_id == project_id)).scalars().all()
    for start in range(0, len(numbers), _AT_ONCE):
        arriving.recount(connection, numbers[start : start + _AT_ONCE])
    connection.execute(delete(series).where(series.c.project_id == project_id, series.c.points == 0))
