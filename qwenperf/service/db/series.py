"""Series: which there are, and windows of them, down-sampled by the database where there are many points.

A bucket keeps the smallest and the largest value beside the mean, so that a spike stays visible at any width, and never
mixes two environments, whose values are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, literal, select, update

from qwenperf.service.db.main_line import on_main
from qwenperf.service.db.tables import accepted, points, projects, runs, series

POINTS_LIMIT = 10_000


@dataclass(frozen=True, kw_only=True)
class Window:
    """Part of a series: ``points``, or ``buckets`` where there were more points than wanted. ``total``: points."""

    total: int
    points: Sequence[Row[Any]] = ()
    buckets: Sequence[Row[Any]] = ()
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of a series is wanted: times between ``start`` and ``end``, one environment or branch, so many points."""

    start: int | None = None
    end: int | None = None
    environment: str | None = None
    branch: str | None = None
    limit: int = 1000


def catalogue(
    connection: Connection,
    project_id: int,
    *,
    case: str | None = None,
    metric: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int = POINTS_LIMIT,
) -> Sequence[Row[Any]]:
    """Return the series of a project by case and metric, each with its newest point; ``after``: those behind it."""
    query = select(series).where(series.c.project_id == project_id)
    if case is not None:
        query = query.where(series.c.case == case)
    if metric is not None:
        query = query.where(series.c.metric == metric)
    if after is not None:
        behind = (series.c.case > after[0]) | ((series.c.case == after[0]) & (series.c.metric > after[1]))
        query = query.where(behind)
    return connection.execute(query.order_by(series.c.case, series.c.metric).limit(limit)).all()


def by_name(connection: Connection, project_id: int, case: str, metric: str) -> Row[Any] | None:
    """Return one series; ``None`` where nothing of this name was ever measured."""
    query = select(series).where(series.c.project_id == project_id, series.c.case == case, series.c.metric == metric)
    return connection.execute(query).first()


def window(connection: Connection, series_id: int, wanted: Wanted) -> Window:
    """Return a window of one series, its points oldest first."""
    inside = _inside(series_id, wanted)
    bounds = connection.execute(
        select(func.count(), func.min(points.c.at), func.max(points.c.at)).select_from(_joined(wanted)).where(inside)
    ).one()
    total, start, end = bounds
    if not total:
        return Window(total=0)
    if total <= wanted.limit:
        return Window(total=total, start=start, end=end, points=_points(connection, inside))
    buckets = _buckets(connection, inside, start, end, wanted)
    return Window(total=total, start=start, end=end, buckets=buckets)


def _inside(series_id: int, wanted: Wanted) -> ColumnElement[bool]:
    conditions = [points.c.series_id == series_id]
    if wanted.start is not None:
        conditions.append(points.c.at >= wanted.start)
    if wanted.end is not None:
        conditions.append(points.c.at <= wanted.end)
    if wanted.environment is not None:
        conditions.append(runs.c.environment == wanted.environment)
    if wanted.branch is not None:
        conditions.append(runs.c.branch == wanted.branch)
    return and_(*conditions)


def _joined(wanted: Wanted) -> Any:
    """Return the points, with their runs where one asks for what only those know."""
    if wanted.environment is None and wanted.branch is None:
        return points
    return points.join(runs, runs.c.id == points.c.run_id)


def newest(connection: Connection, series_id: int, count: int, branch: str) -> Sequence[Row[Any]]:
    """Return the last ``count`` points of a series on the default branch of its project, oldest first."""
    query = _selected().where(points.c.series_id == series_id, on_main(branch))
    rows: Sequence[Any] = connection.execute(
        query.order_by(points.c.at.desc(), points.c.run_id.desc()).limit(count)
    ).all()
    return rows[::-1]


def unjudged(connection: Connection, after: int, limit: int) -> Sequence[Row[Any]]:
    """Return series that have other points than when they were judged, with owner and branch of their project.

    Those with numbers above ``after`` come first, then, where they are fewer than ``limit``, the others.
    """
    query = select(series, projects.c.owner, projects.c.default_branch)
    query = query.join(projects, projects.c.id == series.c.project_id)
    query = query.where(series.c.points != series.c.judged).order_by(series.c.id)
    rows = connection.execute(query.where(series.c.id > after).limit(limit)).all()
    if after and len(rows) < limit:
        rows = [*rows, *connection.execute(query.where(series.c.id <= after).limit(limit - len(rows)))]
    return rows


def judge_anew(connection: Connection, project_id: int) -> None:
    """Have all series of a project judged again, also those that somebody looks at now."""
    mine = series.c.project_id == project_id
    # In the order in which others write them, so that no two wait for each other.
    connection.execute(select(series.c.id).where(mine).order_by(series.c.id).with_for_update())
    never = case((series.c.judged < 0, series.c.judged - 1), else_=-1)
    connection.execute(update(series).where(mine).values(judged=never))


def _points(connection: Connection, inside: ColumnElement[bool]) -> Sequence[Row[Any]]:
    query = _selected().where(inside).order_by(points.c.at, points.c.run_id)
    rows: Sequence[Any] = connection.execute(query).all()
    return rows


def _selected() -> Select[Any]:
    why = and_(accepted.c.series_id == points.c.series_id, accepted.c.run_id == points.c.run_id)
    return select(
        points.c.at, points.c.value, points.c.low, points.c.high, points.c.samples, points.c.run_id,
        runs.c.name.label("run"),
        runs.c.commit, runs.c.branch, runs.c.environment, runs.c.measured_at, runs.c.committed_at,
        accepted.c.reason.label("accepted"),
    ).select_from(points.join(runs, runs.c.id == points.c.run_id).outerjoin(accepted, why))  # fmt: skip


def _buckets(
    connection: Connection, inside: ColumnElement[bool], start: int, end: int, wanted: Wanted
) -> Sequence[Row[Any]]:
    width = (end - start) // wanted.limit + 1
    number = ((points.c.at - start) // width).label("bucket")
    # Where only one environment is wanted it is known, and grouping by it as well takes as long again.
    known = wanted.environment
    environment = runs.c.environment if known is None else literal(known).label("environment")
    groups = (number, runs.c.environment) if known is None else (number,)
    query = (
        select(
            number, environment, func.count().label("points"), func.min(points.c.at).label("at"),
            func.max(points.c.at).label("until"), func.min(points.c.value).label("min"),
            func.max(points.c.value).label("max"), func.avg(points.c.value).label("mean"),
            func.min(points.c.low).label("low"), func.max(points.c.high).label("high"),
        )
        .select_from(points.join(runs, runs.c.id == points.c.run_id))
        .where(inside)
        .group_by(*groups)
        .order_by(*groups)
    )  # fmt: skip
    return connection.execute(query).all()


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where runs of a project are from: how many, and when the newest was made."""

    environment: str
    branch: str
    runs: int
    last_at: int


def origins(connection: Connection, project_id: int) -> Sequence[Origin]:
    """Return each environment with each branch of a project's runs, those with the newest runs first."""
    last = func.max(runs.c.at).label("last_at")
    query = select(runs.c.environment, runs.c.branch, func.count(), last).where(runs.c.project_id == project_id)
    rows = connection.execute(query.group_by(runs.c.environment, runs.c.branch).order_by(last.desc()))
    return [Origin(environment=one[0], branch=one[1], runs=one[2], last_at=one[3]) for one in rows]


def environments(connection: Connection, project_id: int) -> Sequence[Row[Any]]:
    """Return the environments of a project with the number and the newest of their runs, the newest first."""
    last = func.max(runs.c.at).label("last_at")
    query = select(runs.c.environment, func.count().label("runs"), last).where(runs.c.project_id == project_id)
    return connection.execute(query.group_by(runs.c.environment).order_by(last.desc())).all()
