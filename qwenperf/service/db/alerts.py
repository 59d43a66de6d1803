"""Alerts and accepted changes: what was found in a series, and what somebody said about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, select, update

from qwenperf.service.db.tables import accepted, alerts, points, runs, series
from qwenperf.service.problems import NotFoundError

OPEN, CONFIRMED, ACCEPTED, DISMISSED, RESOLVED = "open", "confirmed", "accepted", "dismissed", "resolved"
CHANGE, STOPPED = "change", "stopped"
STATES = (OPEN, CONFIRMED, ACCEPTED, DISMISSED, RESOLVED)


def recent(
    connection: Connection, project_id: int, *, state: str | None = None, limit: int = 200
) -> Sequence[Row[Any]]:
    """Return alerts with the names of their series and run, the latest first."""
    query = named().where(alerts.c.project_id == project_id)
    if state is not None:
        query = query.where(alerts.c.state == state)
    return connection.execute(query.order_by(alerts.c.at.desc(), alerts.c.id.desc()).limit(limit)).all()


def named(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the question for alerts with the names of their series or case and of their run, and for ``more``."""
    case = func.coalesce(series.c.case, func.nullif(alerts.c.case_name, "")).label("case")
    return (
        select(alerts, case, series.c.metric, series.c.unit, series.c.direction, runs.c.name.label("run"), *more)
        .select_from(alerts.outerjoin(series, series.c.id == alerts.c.series_id))
        .outerjoin(runs, runs.c.id == alerts.c.run_id)
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found in a series: a change that begins at ``run_id``, or that it stopped behind it."""

    run_id: int
    at: int
    summary: str
    state: str = OPEN
    family: str = ""
    before: float | None = None
    after: float | None = None

    @property
    def ratio(self) -> float | None:
        """The new level as a multiple of the old."""
        found = self.after / self.before if self.before and self.after is not None else None
        return found if found is not None and math.isfinite(found) else None


def keep(connection: Connection, series_row: Row[Any], kind: str, found: Sequence[Found], *, at: int) -> int:
    """Keep what was found in a series, resolve what is found no more, and return how many alerts are new.

    What somebody accepted or dismissed stays as it was left.
    """
    query = select(alerts.c.id, alerts.c.run_id, alerts.c.state)
    known = connection.execute(query.where(alerts.c.series_id == series_row.id, alerts.c.kind == kind)).all()
    by_run = {row.run_id: row for row in known}
    new = 0
    for one in found:
        told = {name: getattr(one, name) for name in ("summary", "family", "before", "after", "ratio")}
        told |= {"updated_at": at, "state": one.state}
        row = by_run.pop(one.run_id, None)
        if row is None:
            of = {"project_id": series_row.project_id, "series_id": series_row.id, "owner": series_row.owner}
            begins = {"run_id": one.run_id, "kind": kind, "at": one.at, "created_at": at}
            connection.execute(insert(alerts).values(**of, **begins, **told))
            new += 1
        elif row.state in {OPEN, CONFIRMED, RESOLVED}:
            connection.execute(update(alerts).where(alerts.c.id == row.id).values(**told))
    gone = [row.id for row in by_run.values() if row.state in {OPEN, CONFIRMED}]
    if gone:
        connection.execute(update(alerts).where(alerts.c.id.in_(gone)).values(state=RESOLVED, updated_at=at))
    return new


def accept(connection: Connection, series_row: Row[Any], run_row: Row[Any], *, reason: str, by: str, at: int) -> int:
    """Accept the change of a series that begins at a run; what is open there is accepted with it.

    Raises:
      NotFoundError: the run has no point in the series.
    """
    there = select(points.c.value).where(
        points.c.series_id == series_row.id, points.c.at == run_row.at, points.c.run_id == run_row.id
    )
    if connection.execute(there).first() is None:
        raise NotFoundError(
            f"run {run_row.name} has no {series_row.metric} of {series_row.case}.",
            advice="Name the run at which the change begins.",
        )
    here = (accepted.c.series_id == series_row.id) & (accepted.c.run_id == run_row.id)
    values = {"reason": reason, "accepted_by": by, "created_at": at}
    known = connection.execute(select(accepted.c.id).where(here)).scalar()
    if known is not None:
        connection.execute(update(accepted).where(here).values(**values))
        return int(known)
    values |= {"project_id": series_row.project_id, "series_id": series_row.id, "run_id": run_row.id}
    number: int = connection.execute(insert(accepted).returning(accepted.c.id), values).scalar_one()
    connection.execute(
        update(alerts)
        .where(alerts.c.series_id == series_row.id, alerts.c.run_id == run_row.id)
        .where(alerts.c.state.in_((OPEN, CONFIRMED)))
        .values(state=ACCEPTED, updated_at=at)
    )
    return number


def accepted_changes(connection: Connection, project_id: int, *, limit: int = 200) -> Sequence[Row[Any]]:
    """Return the accepted changes of a project with the names of their series and run, the latest first."""
    query = (
        select(accepted, series.c.case, series.c.metric, runs.c.name.label("run"))
        .select_from(accepted.join(series, series.c.id == accepted.c.series_id))
        .join(runs, runs.c.id == accepted.c.run_id)
        .where(accepted.c.project_id == project_id)
        .order_by(accepted.c.created_at.desc(), accepted.c.id.desc())
        .limit(limit)
    )
    return connection.execute(query).all()


def resolve_stopped(connection: Connection, *, at: int) -> int:
    """Resolve alerts of cases that have stopped and go on again, in whichever metric, and return how many."""
    stopped = series.alias()
    same = (series.c.project_id == stopped.c.project_id) & (series.c.case == stopped.c.case)
    newer = select(series.c.id).select_from(series.join(stopped, same))
    # Another metric goes on with a later commit: one that ended before has another last run, and says nothing.
    newer = newer.where(
        stopped.c.id == alerts.c.series_id,
        (stopped.c.last_run_id != alerts.c.run_id) | (series.c.last_at > stopped.c.last_at),
    )
    over = (alerts.c.kind == STOPPED) & alerts.c.state.in_((OPEN, CONFIRMED)) & newer.exists()
    return connection.execute(update(alerts).where(over).values(state=RESOLVED, updated_at=at)).rowcount
