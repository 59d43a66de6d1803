"""Alerts and accepted changes: what was found in a series, and what somebody said about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, select, update

from qwenperf.service.db.main_line import is_on_main
from qwenperf.service.db.same_change import (
    ACCEPTED,
    CONFIRMED,
    DISMISSED,
    OPEN,
    RESOLVED,
    WAITING,
    Found,
    Sight,
    is_as_told,
    matched,
)
from qwenperf.service.db.tables import accepted, alerts, points, runs, series
from qwenperf.service.problems import NotFoundError

__all__ = [
    "ACCEPTED", "CHANGE", "CONFIRMED", "DISMISSED", "OPEN", "RESOLVED", "STATES", "STOPPED", "Found", "accept",
    "accepted_changes", "keep", "keep_changes", "named", "recent",
]  # fmt: skip
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


def keep(connection: Connection, series_row: Row[Any], kind: str, found: Sequence[Found], *, at: int) -> int:
    """Keep what was found in a series, resolve what is found no more, and return how many alerts are new.

    What somebody accepted or dismissed stays as it was left, also where they do so meanwhile.
    """
    known = _known(connection, series_row, kind)
    same = list(matched(found, known))
    _tell(connection, series_row, kind, same, known, at=at)
    _resolve(connection, [row for row in known if not _is_in(row, same)], at)
    return sum(row is None for _, row in same)


def keep_changes(
    connection: Connection, series_row: Row[Any], found: Sequence[Found], sight: Sight | None, *, at: int
) -> int:
    """Keep changes that were found as ``keep`` does; one that could not be found is not over for that.

    ``series_row``: with the default branch of its project. ``sight``: what was looked at; ``None``: all that there is.
    """
    known, branch = _known(connection, series_row, CHANGE), series_row.default_branch
    same = list(matched(found, known))
    _tell(connection, series_row, CHANGE, same, known, at=at)
    clear = [row for row in known if sight is None or sight.is_over(row) or not is_on_main(row, branch)]
    _resolve(connection, [row for row in clear if not _is_in(row, same)], at)
    return sum(row is None for _, row in same)


_Same = tuple[Found, Row[Any] | None]


def _is_in(known: Row[Any], same: Sequence[_Same]) -> bool:
    return any(row is known for _, row in same)


def _known(connection: Connection, series_row: Row[Any], kind: str) -> Sequence[Any]:
    columns = ("id", "run_id", "state", "before", "after", "summary")
    query = select(*(alerts.c[name] for name in columns), runs.c.name.label("run"), runs.c.branch, runs.c.fork_point)
    query = query.join(runs, runs.c.id == alerts.c.run_id)
    return connection.execute(query.where(alerts.c.series_id == series_row.id, alerts.c.kind == kind)).all()


def _tell(
    connection: Connection,
    series_row: Row[Any],
    kind: str,
    same: Sequence[_Same],
    known: Sequence[Row[Any]],
    *,
    at: int,
) -> None:
    """Write down what was found: as an alert of its own, or in the one that is the same."""
    of = {"project_id": series_row.project_id, "series_id": series_row.id, "owner": series_row.owner, "kind": kind}
    for one, row in same:
        told = {name: getattr(one, name) for name in ("before", "after", "ratio", "state")} | {"updated_at": at}
        begins = {"run_id": one.run_id, "at": one.at, "family": one.family, "summary": one.told(one.run)}
        if row is None:
            connection.execute(insert(alerts).values(**of, **begins, **told, created_at=at))
            continue
        # The run that was told of stays, unless the change surely begins elsewhere.
        stays = is_as_told(one, row) or any(other.run_id == one.run_id for other in known)
        told |= {"summary": one.told(row.run)} if stays else begins
        _change(connection, [row], (*WAITING, RESOLVED), told)


def _resolve(connection: Connection, gone: Sequence[Row[Any]], at: int) -> None:
    _change(connection, gone, WAITING, {"state": RESOLVED, "updated_at": at})


def _change(connection: Connection, rows: Sequence[Row[Any]], states: Sequence[str], values: Mapping[str, Any]) -> None:
    """Change alerts that are in one of some states still: somebody may have answered since they were read."""
    found = [row.id for row in rows if row.state in states]
    if found:
        still = alerts.c.id.in_(found) & alerts.c.state.in_(states)
        connection.execute(update(alerts).where(still).values(**values))


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
    else:
        values |= {"project_id": series_row.project_id, "series_id": series_row.id, "run_id": run_row.id}
        known = connection.execute(insert(accepted).returning(accepted.c.id), values).scalar_one()
    connection.execute(
        update(alerts)
        .where(alerts.c.series_id == series_row.id, alerts.c.run_id == run_row.id, alerts.c.kind == CHANGE)
        .where(alerts.c.state.in_(WAITING))
        .values(state=ACCEPTED, updated_at=at)
    )
    return int(known)


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
