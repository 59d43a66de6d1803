"""The default branch of a project as a line of runs: which run is on it, and where another branch left it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, tuple_, update

from qwenperf.service.db.tables import points, projects, runs

UNKNOWN = ("", "HEAD")
"""Names of a branch that nobody knows: files of other tools have none, and git calls a detached checkout HEAD."""

_SEVERAL = 500


def on_main(branch: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return what is true of runs on the line of ``branch``: those that left it nowhere and are not known elsewhere."""
    return and_(runs.c.fork_point == "", or_(runs.c.branch == branch, runs.c.branch.in_(UNKNOWN)))


def is_on_main(run: Row[Any], branch: str) -> bool:
    """Say whether a run is on the line of ``branch``."""
    return not run.fork_point and run.branch in {branch, *UNKNOWN}


def unjudged(connection: Connection, limit: int) -> Sequence[Row[Any]]:
    """Return runs that nobody has looked at since they arrived, with owner and default branch of their project."""
    query = select(runs, projects.c.owner, projects.c.default_branch).join(projects, projects.c.id == runs.c.project_id)
    return connection.execute(query.where(runs.c.judged.is_(False)).order_by(runs.c.id).limit(limit)).all()


def claim(connection: Connection, found: Sequence[Row[Any]]) -> int:
    """Mark runs as looked at and return how many were not: of several workers one has a run.

    By their content, too: SQLite gives the number of a run that was removed since to the next one.
    """
    these = tuple_(runs.c.id, runs.c.sha256).in_([(row.id, row.sha256) for row in found])
    mine = these & runs.c.judged.is_(False)
    return connection.execute(update(runs).where(mine).values(judged=True)).rowcount


def forked_at(connection: Connection, run: Row[Any]) -> int | None:
    """Return when a run's fork point was made, as its sender or a run of that commit says; ``None``: nobody knows."""
    if run.forked_at is not None:
        return int(run.forked_at)
    mine = (runs.c.project_id == run.project_id) & (runs.c.commit == run.fork_point)
    found: int | None = connection.execute(select(func.min(runs.c.at)).where(mine)).scalar()
    return found


def before_fork(connection: Connection, run: Row[Any], branch: str, limit: int) -> Sequence[Row[Any]]:
    """Return the runs of the default branch up to a run's fork point, the newest first.

    Only those count that compare with it: whole ones of its suite in its environment.
    """
    place = forked_at(connection, run)
    if place is None:
        return ()
    # A run without the time of its commit lies where it was measured, which is later.
    early = or_(runs.c.at <= place, runs.c.commit == run.fork_point)
    query = select(runs).where(_like(run), on_main(branch), early)
    return connection.execute(query.order_by(runs.c.at.desc(), runs.c.id.desc()).limit(limit)).all()


def again(connection: Connection, run: Row[Any], limit: int) -> Sequence[Row[Any]]:
    """Return the newest runs of the same commit as ``run`` that compare with it, itself among them, oldest first."""
    same = runs.c.id == run.id
    if run.commit:
        same = (runs.c.commit == run.commit) & (runs.c.fork_point == run.fork_point) & (runs.c.id <= run.id)
    query = select(runs).where(_like(run), same).order_by(runs.c.at.desc(), runs.c.id.desc()).limit(limit)
    return connection.execute(query).all()[::-1]


def _like(run: Row[Any]) -> ColumnElement[bool]:
    return and_(
        runs.c.project_id == run.project_id,
        runs.c.environment == run.environment,
        runs.c.suite == run.suite,
        runs.c.interrupted.is_(False),
    )


def values(
    connection: Connection, series_ids: Sequence[int], found: Sequence[Row[Any]]
) -> dict[tuple[int, int], float]:
    """Return what some runs measured, by series and run."""
    if not found or not series_ids:
        return {}
    first, last = min(row.at for row in found), max(row.at for row in found)
    numbers = [row.id for row in found]
    measured: dict[tuple[int, int], float] = {}
    for start in range(0, len(series_ids), _SEVERAL):
        # By the key of the table: each series is asked for one range, and within it for these runs.
        span = and_(points.c.series_id.in_(series_ids[start : start + _SEVERAL]), points.c.at.between(first, last))
        query = select(points.c.series_id, points.c.run_id, points.c.value).where(span, points.c.run_id.in_(numbers))
        measured |= {(row.series_id, row.run_id): row.value for row in connection.execute(query)}
    return measured
