"""Cases and when their last run on the default branch was: what has stopped there, and what goes on again.

Runs of other branches say nothing: those of one that was closed are no end, and those of another no life.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select, tuple_, update

from qwenperf.service.db.alerts import RESOLVED, STOPPED
from qwenperf.service.db.main_line import is_on_main, on_main
from qwenperf.service.db.same_change import WAITING
from qwenperf.service.db.tables import alerts, points, projects, runs, series


def ends(connection: Connection, after: tuple[int, str], limit: int) -> Sequence[Row[Any]]:
    """Return series of the cases behind ``after`` (project and case), each with its last run on the default branch.

    They are ``limit`` cases, in order, and of each one series of all that have as many points and the same end.
    Columns: id, project_id, case; owner and default_branch of the project; ``run_id`` and ``at`` of the run, ``None``
    where there is none.
    """
    case = (series.c.project_id, series.c.case)
    some = select(*case).where(tuple_(*case) > after).distinct().order_by(*case).limit(limit).subquery()
    same = and_(series.c.project_id == some.c.project_id, series.c.case == some.c.case)
    alike = select(func.min(series.c.id)).select_from(series.join(some, same))
    alike = alike.group_by(*case, series.c.last_at, series.c.points)
    last = (
        select(points.c.run_id)
        .select_from(points.join(runs, runs.c.id == points.c.run_id))
        .where(points.c.series_id == series.c.id, on_main(projects.c.default_branch))
        .order_by(points.c.at.desc(), points.c.run_id.desc())
        .limit(1)
        .correlate(series, projects)
        .scalar_subquery()
    )
    found = (
        select(series.c.id, *case, projects.c.owner, projects.c.default_branch, last.label("run_id"))
        .join(projects, projects.c.id == series.c.project_id)
        .where(series.c.id.in_(alike))
        .subquery()
    )
    query = select(found, runs.c.at).select_from(found.outerjoin(runs, runs.c.id == found.c.run_id))
    return connection.execute(query.order_by(found.c.project_id, found.c.case, found.c.id)).all()


def arrivals(connection: Connection, series_id: int, count: int, branch: str) -> Sequence[int]:
    """Return when the last points of a series on the default branch were received."""
    query = select(runs.c.received_at).join(points, points.c.run_id == runs.c.id)
    query = query.where(points.c.series_id == series_id, on_main(branch)).order_by(points.c.at.desc()).limit(count)
    return connection.execute(query).scalars().all()


def resolve(connection: Connection, *, at: int) -> int:
    """Resolve alerts of cases that have stopped and go on again, in whichever metric, and return how many.

    One that began at a run of another branch, or of what was the default one, is over, too.
    """
    query = (
        select(alerts.c.id, series.c.project_id, series.c.case, projects.c.default_branch, runs.c.branch)
        .add_columns(runs.c.fork_point, runs.c.id.label("run_id"), runs.c.at)
        .select_from(alerts.join(series, series.c.id == alerts.c.series_id))
        .join(projects, projects.c.id == series.c.project_id)
        .join(runs, runs.c.id == alerts.c.run_id)
        .where(alerts.c.kind == STOPPED, alerts.c.state.in_(WAITING))
    )
    rows = connection.execute(query).all()
    over = [row.id for row in rows if not is_on_main(row, row.default_branch) or _goes_on(connection, row)]
    still = alerts.c.id.in_(over) & alerts.c.state.in_(WAITING)
    return connection.execute(update(alerts).where(still).values(state=RESOLVED, updated_at=at)).rowcount


def _goes_on(connection: Connection, row: Row[Any]) -> bool:
    later = or_(points.c.at > row.at, and_(points.c.at == row.at, points.c.run_id > row.run_id))
    query = (
        select(points.c.run_id)
        .select_from(points.join(series, series.c.id == points.c.series_id))
        .join(runs, runs.c.id == points.c.run_id)
        .where(series.c.project_id == row.project_id, series.c.case == row.case, points.c.at >= row.at, later)
        .where(on_main(row.default_branch))
    )
    return connection.execute(query.limit(1)).first() is not None
