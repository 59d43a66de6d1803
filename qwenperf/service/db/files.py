"""Files of runs and comparisons: which there are, and which nobody names any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, delete, exists, insert, select, union

from qwenperf.service.db.projects import charge
from qwenperf.service.db.tables import comparison_files, comparisons, files, files_going, run_files, runs

_AT_ONCE = 500
Kind = Literal["run", "comparison"]
_NAMING = {"run": run_files, "comparison": comparison_files}
"""Where the files of each kind of record have their paths."""


@dataclass(frozen=True)
class Owner:
    """Whose a file is: a run or a comparison, by its number."""

    kind: Kind
    id: int

    @property
    def names(self) -> Table:
        """The table of the files of its kind."""
        return _NAMING[self.kind]

    @property
    def column(self) -> dict[str, int]:
        """What a row of its has in the column that says so."""
        return {f"{self.kind}_id": self.id}

    def has(self, table: Table) -> ColumnElement[bool]:
        """Return what is true of its rows in ``names`` or in the table of uploads."""
        found: ColumnElement[bool] = table.c[f"{self.kind}_id"] == self.id
        return found


def of(connection: Connection, owner: Owner) -> Sequence[Row[Any]]:
    """Return the files of a run or comparison by path."""
    return connection.execute(_lying(owner).order_by(owner.names.c.path)).all()


def of_run(connection: Connection, run_id: int) -> Sequence[Row[Any]]:
    """Return the files of a run by path."""
    return of(connection, Owner("run", run_id))


def of_comparison(connection: Connection, comparison_id: int) -> Sequence[Row[Any]]:
    """Return the files of a comparison by path."""
    return of(connection, Owner("comparison", comparison_id))


def at_path(connection: Connection, owner: Owner, path: str) -> Row[Any] | None:
    """Return one file of a run or comparison; ``None`` where there is none."""
    return connection.execute(_lying(owner).where(owner.names.c.path == path)).first()


def is_there(connection: Connection, owner: Owner, row: Row[Any]) -> bool:
    """Say whether the run or comparison is there of which ``row`` was read, and no later one with its number."""
    records = runs if owner.kind == "run" else comparisons
    same = (records.c[name] == getattr(row, name) for name in ("id", "project_id", "sha256", "received_at"))
    return connection.execute(select(records.c.id).where(*same)).first() is not None


def _lying(owner: Owner) -> Select[Any]:
    names = owner.names
    columns = (names.c.path, files.c.id, files.c.project_id, files.c.sha256, files.c.size, files.c.name)
    return select(*columns).join(files, files.c.id == names.c.file_id).where(owner.has(names))


def _unnamed() -> ColumnElement[bool]:
    """Return what is true of a file that no run and no comparison has."""
    return and_(*(~exists().where(names.c.file_id == files.c.id) for names in _NAMING.values()))


def with_unnamed(connection: Connection) -> Sequence[int]:
    """Return the projects that have files which nothing names any more, or content that is still to be removed."""
    unnamed = select(files.c.project_id).where(_unnamed())
    return connection.execute(union(unnamed, select(files_going.c.project_id))).scalars().all()


def drop_unnamed(connection: Connection, project_id: int) -> list[str]:
    """Forget some files that nothing names any more, give their room back, and return their names, which are going now.

    Some at a time: no statement takes any number.
    """
    idle = select(files.c.id).where(files.c.project_id == project_id, _unnamed()).order_by(files.c.id).limit(_AT_ONCE)
    # A record may have got one of them since we looked. Once they are ours none can: whoever tries then waits for us,
    # finds the file gone, and begins anew.
    held = connection.execute(idle.with_for_update()).scalars().all()
    still = select(files.c.id, files.c.size, files.c.name).where(files.c.id.in_(held), _unnamed())
    gone = connection.execute(still).all() if held else ()
    if gone:
        connection.execute(insert(files_going), [{"project_id": project_id, "name": row.name} for row in gone])
        connection.execute(delete(files).where(files.c.id.in_([row.id for row in gone])))
        charge(connection, project_id, -sum(row.size for row in gone))
    return [row.name for row in gone]


def will_go(connection: Connection, project_id: int, names: Sequence[str]) -> None:
    """Note names under which content may lie that no row names; the next round of tidying up removes it.

    What a row names after all is left out.
    """
    if names:
        # Writers of one project take turns: nobody notes the same at this moment.
        charge(connection, project_id, 0)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        known: set[str] = set()
        for table in (files, files_going):
            mine = (table.c.project_id == project_id) & table.c.name.in_(some)
            known.update(connection.execute(select(table.c.name).where(mine)).scalars())
        fresh = [{"project_id": project_id, "name": name} for name in dict.fromkeys(some) if name not in known]
        if fresh:
            connection.execute(insert(files_going), fresh)


def going(connection: Connection, project_id: int) -> Sequence[str]:
    """Return some names of content that no row names any more, and that the file store may still have."""
    mine = select(files_going.c.name).where(files_going.c.project_id == project_id)
    return connection.execute(mine.order_by(files_going.c.name).limit(_AT_ONCE)).scalars().all()


def are_gone(connection: Connection, project_id: int, names: Sequence[str]) -> None:
    """Forget names whose content the file store has no more."""
    mine = (files_going.c.project_id == project_id) & files_going.c.name.in_(names)
    connection.execute(delete(files_going).where(mine))
