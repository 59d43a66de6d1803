"""Runs: kept once, whole, and found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, insert, or_, select

from qwenperf.service.arrivals import ArrivedRun, unpack, unpack_text
from qwenperf.service.db.points import keep_points
from qwenperf.service.db.prepared import Prepared
from qwenperf.service.db.projects import charge, rows_bytes
from qwenperf.service.db.tables import cases, records, runs, verdicts
from qwenperf.service.problems import ConflictError


def _columns(table: Table) -> list[str]:
    """Return what whoever adds a row says: all but its number."""
    return [column.name for column in table.c if column.name != "id"]


# Statements of every arrival are made once: making one takes longer than running it.
_SAME = Prepared(
    select(runs.c.id, runs.c.sha256).where(
        runs.c.project_id == bindparam("project"),
        or_(runs.c.sha256 == bindparam("content"), runs.c.name == bindparam("called")),
    ),
    ("project", "content", "called"),
)
_INSERT_RECORD = Prepared(insert(records).returning(records.c.id), ("body", "size", "rows_bytes"))
_INSERT_RUN = Prepared(insert(runs).returning(runs.c.id), _columns(runs))
_INSERT_CASES = Prepared(insert(cases), _columns(cases))
_INSERT_VERDICTS = Prepared(insert(verdicts), _columns(verdicts))
_OF_NOTHING = {"run_id": None, "comparison_id": None}
_ON_MAIN = {"fork_point": "", "forked_at": None}


def keep(connection: Connection, project_id: int, arrived: ArrivedRun, *, at: int, by: str) -> tuple[int, bool]:
    """Keep a run and return its number, and whether it is new: the same content again changes nothing.

    Raises:
      ConflictError: another run of this name is there, or a metric came in another unit before.
      Problem: 413, the project has no room.
    """
    known = _known(connection, project_id, arrived)
    if known is not None:
        return known, False
    content = arrived.content
    rows = _rows_bytes(arrived)
    charge(connection, project_id, len(content.body) + rows)
    record = _INSERT_RECORD.ask(connection, body=content.body, size=content.size, rows_bytes=rows).number
    values = _ON_MAIN | arrived.run | {
        "project_id": project_id, "name": arrived.name, "sha256": content.sha256, "received_at": at, "pushed_by": by,
        "record_id": record, "judged": False,
    }  # fmt: skip
    run_id = _INSERT_RUN.ask(connection, **values).number
    _INSERT_CASES.run(connection, [value | {"run_id": run_id} for value in arrived.cases])
    keep_points(connection, project_id, run_id, arrived.run["at"], arrived.points)
    keep_verdicts(connection, arrived.verdicts, project_id=project_id, run_id=run_id)
    return run_id, True


def _rows_bytes(arrived: ArrivedRun) -> int:
    """Return what the rows of a run count for; of one that names its fork point with the verdicts that it gets."""
    cases = len(arrived.cases)
    verdicts = len(arrived.verdicts) + (cases if arrived.run.get("fork_point") else 0)
    return rows_bytes(points=len(arrived.points), cases=cases, verdicts=verdicts)


def keep_verdicts(connection: Connection, found: Sequence[dict[str, Any]], **of: int) -> None:
    """Keep what gates said of a run or comparison."""
    _INSERT_VERDICTS.run(connection, [_OF_NOTHING | value | of for value in found])


def _known(connection: Connection, project_id: int, arrived: ArrivedRun) -> int | None:
    rows = _SAME.ask(connection, project=project_id, content=arrived.content.sha256, called=arrived.name).rows
    for number, content in rows:
        if content == arrived.content.sha256:
            return int(number)
    if rows:
        raise ConflictError(
            f"another run {arrived.name!r} is there, with other content.",
            advice="A run is never changed; give this one an id of its own.",
        )
    return None


def by_name(connection: Connection, project_id: int, name: str) -> Row[Any] | None:
    """Return a run; ``None`` where there is none of this name."""
    return connection.execute(select(runs).where(runs.c.project_id == project_id, runs.c.name == name)).first()


def recent(
    connection: Connection,
    project_id: int,
    *,
    limit: int = 50,
    before: int | None = None,
    behind: tuple[int, int] | None = None,
    branch: str | None = None,
    environment: str | None = None,
    commit: str | None = None,
    suite: str | None = None,
) -> Sequence[Row[Any]]:
    """Return runs, the latest first.

    Args:
      connection: reads.
      project_id: of this project.
      limit: so many at most.
      before: older than that.
      behind: those that follow the one with this ``at`` and ``id`` in the list.
      branch: on this branch.
      environment: in this environment.
      commit: of this commit.
      suite: of this suite.
    """
    query = select(runs).where(runs.c.project_id == project_id)
    if before is not None:
        query = query.where(runs.c.at < before)
    if behind is not None:
        query = query.where((runs.c.at < behind[0]) | ((runs.c.at == behind[0]) & (runs.c.id < behind[1])))
    only = ((runs.c.branch, branch), (runs.c.environment, environment), (runs.c.commit, commit), (runs.c.suite, suite))
    for column, value in only:
        if value is not None:
            query = query.where(column == value)
    return connection.execute(query.order_by(runs.c.at.desc(), runs.c.id.desc()).limit(limit)).all()


def record(connection: Connection, record_id: int) -> Any:
    """Return the JSON data of a record."""
    return unpack(_body(connection, record_id))


def record_text(connection: Connection, record_id: int) -> bytes:
    """Return the JSON text of a record."""
    return unpack_text(_body(connection, record_id))


def _body(connection: Connection, record_id: int) -> bytes:
    body: bytes = connection.execute(select(records.c.body).where(records.c.id == record_id)).scalar_one()
    return body


def cases_of(connection: Connection, run_id: int) -> Sequence[Row[Any]]:
    """Return the cases of a run, in its order."""
    return connection.execute(select(cases).where(cases.c.run_id == run_id).order_by(cases.c.id)).all()


def verdicts_of(connection: Connection, **of: int) -> Sequence[Row[Any]]:
    """Return the verdicts on a run or comparison, in its order."""
    query = select(verdicts).order_by(verdicts.c.id)
    for name, value in of.items():
        query = query.where(verdicts.c[name] == value)
    return connection.execute(query).all()
