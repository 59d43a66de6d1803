"""What the overview and the matrix ask of the database. None of it reads points: series know their newest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from qwenperf.service.db.series import Wanted
from qwenperf.service.db.tables import accepted, alerts, points, runs, series, verdicts

KEY_METRICS = ("decode_tokens_per_s", "tpot_s", "ttft_s", "mbu")
"""What a case is known by; of these a missing one is a gap in the table."""

_AT_ONCE = 500


def newest_run_at(connection: Connection, project_id: int) -> int | None:
    """Return when the newest run of a project is from, or ``None`` where there is none."""
    found: int | None = connection.execute(
        select(func.max(runs.c.at)).where(runs.c.project_id == project_id)
    ).scalar_one()
    return found


def newest_of(connection: Connection, project_id: int, metrics: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the series of some metrics that have points."""
    query = select(series).where(
        series.c.project_id == project_id, series.c.metric.in_(metrics), series.c.last_at.is_not(None)
    )
    return connection.execute(query.order_by(series.c.case)).all()


def longest(connection: Connection, project_id: int, limit: int) -> Sequence[Row[Any]]:
    """Return the series of times with the largest newest values, whatever their metric is called."""
    query = select(series).where(
        series.c.project_id == project_id, series.c.unit == "s", series.c.last_value.is_not(None)
    )
    return connection.execute(query.order_by(series.c.last_value.desc(), series.c.id).limit(limit)).all()


def stale_cases(connection: Connection, project_id: int, before: int, limit: int) -> Sequence[Row[Any]]:
    """Return cases of which nothing has come since ``before``: ``case``, ``last_at``; those longest silent first."""
    last = func.max(series.c.last_at)
    query: Select[Any] = (
        select(series.c.case, last.label("last_at"))
        .where(series.c.project_id == project_id)
        .group_by(series.c.case)
        .having(last < before)
        .order_by(last, series.c.case)
        .limit(limit)
    )
    return connection.execute(query).all()


def metrics_of(connection: Connection, project_id: int) -> Sequence[Row[Any]]:
    """Return ``metric``, ``unit`` and number of ``series`` of what a project measures, the most first."""
    count = func.count()
    query = (
        select(series.c.metric, func.min(series.c.unit).label("unit"), count.label("series"))
        .where(series.c.project_id == project_id, series.c.last_at.is_not(None))
        .group_by(series.c.metric)
        .order_by(count.desc(), series.c.metric)
    )
    return connection.execute(query).all()


def bad_verdicts(connection: Connection, run_ids: Sequence[int]) -> dict[tuple[int, str], str]:
    """Return by run and case the worse of the outcomes ``fail`` and ``inconclusive`` that its gates gave."""
    found: dict[tuple[int, str], str] = {}
    wanted = sorted(set(run_ids))
    for start in range(0, len(wanted), _AT_ONCE):
        query = select(verdicts.c.run_id, verdicts.c.case, verdicts.c.outcome).where(
            verdicts.c.run_id.in_(wanted[start : start + _AT_ONCE]), verdicts.c.outcome.in_(("fail", "inconclusive"))
        )
        for row in connection.execute(query):
            if found.get((row.run_id, row.case)) != "fail":
                found[row.run_id, row.case] = row.outcome
    return found


def search(
    connection: Connection, project_id: int, *, text: str, metric: str, limit: int, after: int = 0
) -> Sequence[Row[Any]]:
    """Return series whose case holds ``text``, from the ``after``-th on; ``metric`` narrows it."""
    query = select(series).where(series.c.project_id == project_id)
    if text:
        # Both ways: PostgreSQL of the locale C folds letters of ASCII only, and leaves all others as they are.
        small = func.lower(series.c.case).contains(text.lower(), autoescape=True)
        query = query.where(small | func.upper(series.c.case).contains(text.upper(), autoescape=True))
    if metric:
        query = query.where(series.c.metric == metric)
    return connection.execute(query.order_by(series.c.case, series.c.metric).offset(after).limit(limit)).all()


def branches(connection: Connection, project_id: int, limit: int = 50) -> Sequence[str]:
    """Return the branches of a project, those with the newest runs first."""
    query = (
        select(runs.c.branch)
        .where(runs.c.project_id == project_id, runs.c.branch != "")
        .group_by(runs.c.branch)
        .order_by(func.max(runs.c.at).desc())
        .limit(limit)
    )
    return [row.branch for row in connection.execute(query)]


def alerts_of(connection: Connection, series_id: int) -> Sequence[Row[Any]]:
    """Return the alerts of one series, the latest first, each with its run's name."""
    query = (
        select(alerts, runs.c.name.label("run"))
        .select_from(alerts.outerjoin(runs, runs.c.id == alerts.c.run_id))
        .where(alerts.c.series_id == series_id)
        .order_by(alerts.c.at.desc())
        .limit(100)
    )
    return connection.execute(query).all()


def latest_runs(connection: Connection) -> dict[int, Row[Any]]:
    """Return by project when its newest run is from, and how many it has."""
    query = select(runs.c.project_id, func.max(runs.c.at).label("at"), func.count().label("runs"))
    return {row.project_id: row for row in connection.execute(query.group_by(runs.c.project_id))}


def open_alerts(connection: Connection) -> dict[int, int]:
    """Return by project how many alerts nobody has answered."""
    query = select(alerts.c.project_id, func.count().label("open")).where(alerts.c.state.in_(("open", "confirmed")))
    return {row.project_id: row.open for row in connection.execute(query.group_by(alerts.c.project_id))}


def latest_points(connection: Connection, series_id: int, wanted: Wanted) -> Sequence[Row[Any]]:
    """Return the newest points of a window with their runs, the newest first."""
    query: Select[Any] = (
        select(
            points.c.at, points.c.value, points.c.low, points.c.high, points.c.samples, runs.c.name.label("run"),
            runs.c.commit, runs.c.branch, runs.c.environment, accepted.c.reason.label("accepted"),
        )
        .select_from(points.join(runs, runs.c.id == points.c.run_id))
        .outerjoin(accepted, (accepted.c.series_id == points.c.series_id) & (accepted.c.run_id == points.c.run_id))
        .where(points.c.series_id == series_id)
    )  # fmt: skip
    if wanted.start is not None:
        query = query.where(points.c.at >= wanted.start)
    if wanted.environment is not None:
        query = query.where(runs.c.environment == wanted.environment)
    if wanted.branch is not None:
        query = query.where(runs.c.branch == wanted.branch)
    return connection.execute(query.order_by(points.c.at.desc(), points.c.run_id.desc()).limit(wanted.limit)).all()


def environment_of(connection: Connection, run_id: int | None) -> str:
    """Return the environment that a run came from; empty where it or the run is not known."""
    return connection.execute(select(runs.c.environment).where(runs.c.id == run_id)).scalar() or ""
