"""Records go, old ones or one that somebody removes: with all that is theirs, in small steps, never half of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, exists, func, select, update

from qwenperf.service.db import points as arriving
from qwenperf.service.db.files import will_go
from qwenperf.service.db.projects import charge
from qwenperf.service.db.referred import is_referred_to
from qwenperf.service.db.tables import comparisons, points, projects, records, runs, series, uploads
from qwenperf.service.files import content_name

_AT_ONCE = 200
_NEVER = -1
"""As a number of points at which a series was judged: one that it never has."""


def expire(connection: Connection, project_id: int, before: int) -> int:
    """Remove the oldest runs of a project, of those from before a time, and return how many.

    What came later stays, however old its commit is: who measures an old one has just done so.
    """
    old = select(runs.c.id, runs.c.at, runs.c.record_id).where(
        runs.c.project_id == project_id, runs.c.at < before, runs.c.received_at < before
    )
    rows = connection.execute(old.order_by(runs.c.at, runs.c.id).limit(_AT_ONCE)).all()
    if rows:
        _drop(connection, project_id, rows)
    return len(rows)


def remove(connection: Connection, run: Row[Any]) -> None:
    """Remove one run."""
    _drop(connection, run.project_id, [run])


def _drop(connection: Connection, project_id: int, rows: Sequence[Any]) -> None:
    """Remove some runs, in the order of their times, and all that is theirs but their files.

    Their series know of it at once: those that have no other point go, the rest are judged anew.
    """
    # Writers of one project take turns: what is counted below nobody adds to, and what has just come is counted.
    charge(connection, project_id, 0)
    first, last, numbers = rows[0].at, rows[-1].at, [row.id for row in rows]
    mine = select(series.c.id).where(series.c.project_id == project_id)
    # By the key of the table: each series is asked for one range, and within it for these runs.
    span = and_(points.c.series_id.in_(mine), points.c.at >= first, points.c.at <= last)
    theirs = and_(span, points.c.run_id.in_(numbers))
    counted = select(points.c.series_id, func.count().label("lost")).where(theirs).group_by(points.c.series_id)
    losing = connection.execute(counted.order_by(points.c.series_id)).all()
    connection.execute(delete(points).where(theirs))
    _follow(connection, losing, numbers)
    _forget_uploads(connection, project_id, uploads.c.run_id.in_(numbers))
    connection.execute(delete(runs).where(runs.c.id.in_(numbers)))
    _forget_records(connection, project_id, [row.record_id for row in rows])


def _follow(connection: Connection, losing: Sequence[Row[Any]], run_ids: Sequence[int]) -> None:
    """Let series follow that lost the points of some runs; ``losing``: each with how many."""
    if losing:
        fewer = update(series).where(series.c.id == bindparam("number"))
        fewer = fewer.values(points=series.c.points - bindparam("lost"), judged=_NEVER)
        connection.execute(fewer, [{"number": row.series_id, "lost": row.lost} for row in losing])
    for start in range(0, len(losing), _AT_ONCE):
        some = [row.series_id for row in losing[start : start + _AT_ONCE]]
        _forget_empty(connection, some)
        ended = select(series.c.id).where(series.c.id.in_(some), series.c.last_run_id.in_(run_ids))
        newest_went = connection.execute(ended).scalars().all()
        if newest_went:
            arriving.recount(connection, newest_went)


def _forget_empty(connection: Connection, series_ids: Sequence[int]) -> None:
    """Let series go that have no point any more."""
    without = select(series.c.id).where(series.c.id.in_(series_ids), series.c.points <= 0)
    gone = connection.execute(without).scalars().all()
    if gone:
        # Asked of these alone: to find the first point that is left PostgreSQL reads past all that have just gone.
        empty = ~exists().where(points.c.series_id == series.c.id)
        connection.execute(delete(series).where(series.c.id.in_(gone), empty))


def expire_comparisons(connection: Connection, project_id: int, before: int) -> int:
    """Remove the oldest comparisons of a project, of those from before a time, and return how many.

    As of runs, what came later stays; so does what something refers to.
    """
    old = select(comparisons.c.id, comparisons.c.record_id).where(
        comparisons.c.project_id == project_id,
        comparisons.c.created_at < before,
        comparisons.c.received_at < before,
        ~is_referred_to(before),
    )
    rows = connection.execute(old.order_by(comparisons.c.created_at, comparisons.c.id).limit(_AT_ONCE)).all()
    if rows:
        _drop_comparisons(connection, project_id, rows)
    return len(rows)


def remove_comparison(connection: Connection, comparison: Row[Any]) -> None:
    """Remove one comparison; its files are then nobody's, unless another record has them."""
    _drop_comparisons(connection, comparison.project_id, [comparison])


def _drop_comparisons(connection: Connection, project_id: int, rows: Sequence[Any]) -> None:
    """Remove some comparisons, and all that is theirs but their files."""
    numbers = [row.id for row in rows]
    _forget_uploads(connection, project_id, uploads.c.comparison_id.in_(numbers))
    connection.execute(delete(comparisons).where(comparisons.c.id.in_(numbers)))
    _forget_records(connection, project_id, [row.record_id for row in rows])


def _forget_uploads(connection: Connection, project_id: int, theirs: ColumnElement[bool]) -> None:
    """Let uploads under way go with their records, and give back the room that was taken for them."""
    # Whoever announces one takes room first: that waits for us, and finds the record gone.
    connection.execute(select(projects.c.id).where(projects.c.id == project_id).with_for_update(key_share=True))
    asked = delete(uploads).where(theirs).returning(uploads.c.size, uploads.c.sha256, uploads.c.id)
    gone = connection.execute(asked).all()
    charge(connection, project_id, -sum(row.size for row in gone))
    # Of one that was all there the content may lie in the file store already.
    will_go(connection, project_id, [content_name(row.sha256, row.id) for row in gone])


def _forget_records(connection: Connection, project_id: int, held: list[int]) -> None:
    # What their rows counted for as it was taken: those that came before rows counted give none back.
    size = func.coalesce(func.sum(func.length(records.c.body) + records.c.rows_bytes), 0)
    freed = connection.execute(select(size).where(records.c.id.in_(held))).scalar_one()
    connection.execute(delete(records).where(records.c.id.in_(held)))
    charge(connection, project_id, -int(freed))
