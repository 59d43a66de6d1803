"""Files of runs: which there are, and which nobody names any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, select

from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import files, run_files

_COLUMNS = (run_files.c.path, files.c.id, files.c.project_id, files.c.sha256, files.c.size, files.c.name)


def of_run(connection: Connection, run_id: int) -> Sequence[Row[Any]]:
    """Return the files of a run by path."""
    query = select(*_COLUMNS).join(files, files.c.id == run_files.c.file_id).where(run_files.c.run_id == run_id)
    rows: Sequence[Any] = connection.execute(query.order_by(run_files.c.path)).all()
    return rows


def at_path(connection: Connection, run_id: int, path: str) -> Row[Any] | None:
    """Return one file of a run; ``None`` where there is none."""
    query = select(*_COLUMNS).join(files, files.c.id == run_files.c.file_id)
    query = query.where(run_files.c.run_id == run_id, run_files.c.path == path)
    rows: Sequence[Any] = connection.execute(query).all()
    return rows[0] if rows else None


def with_unnamed(connection: Connection) -> Sequence[int]:
    """Return the projects that have files which no run has any more."""
    named = exists().where(run_files.c.file_id == files.c.id)
    return connection.execute(select(files.c.project_id).where(~named).distinct()).scalars().all()


def drop_unnamed(connection: Connection, project_id: int) -> list[str]:
    """Forget the files that no run has any more, give their room back, and return their names."""
    named = exists().where(run_files.c.file_id == files.c.id)
    idle = select(files.c.id).where(files.c.project_id == project_id, ~named).order_by(files.c.id)
    # A run may have got one of them since we looked. Once they are ours none can: whoever tries then waits for us,
    # finds the file gone, and begins anew.
    held = connection.execute(idle.with_for_update()).scalars().all()
    still = select(files.c.id, files.c.size, files.c.name).where(files.c.id.in_(held), ~named)
    gone = connection.execute(still).all() if held else ()
    if gone:
        connection.execute(delete(files).where(files.c.id.in_([row.id for row in gone])))
        charge(connection, project_id, -sum(row.size for row in gone))
    return [row.name for row in gone]
