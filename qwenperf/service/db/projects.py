"""Projects: made, found, and how much they may keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, bindparam, insert, or_, select, update

from qwenperf.service.db.prepared import Prepared
from qwenperf.service.db.tables import projects
from qwenperf.service.problems import ConflictError, Problem
from qwenperf.service.texts import is_project_name
from qwenperf.units import byte_count

_CHARGE = Prepared(
    update(projects)
    .where(projects.c.id == bindparam("project"))
    .where(
        or_(
            bindparam("size", type_=BigInteger) <= 0,
            projects.c.used_bytes + bindparam("size", type_=BigInteger) <= projects.c.quota_bytes,
        )
    )
    .values(used_bytes=projects.c.used_bytes + bindparam("size", type_=BigInteger)),
    ("project", "size"),
)

_POINT_BYTES, _CASE_BYTES, _VERDICT_BYTES = 100, 200, 400
"""What a row of each counts for: about what the databases make of it, and the same whatever is in it."""

# Asked by every request: making a statement takes longer than running it.
_BY_NAME = select(projects).where(projects.c.name == bindparam("called"))


def by_name(connection: Connection, name: str) -> Row[Any] | None:
    """Return a project; ``None`` where there is none of this name, or no project can have it."""
    if not is_project_name(name):
        return None
    return connection.execute(_BY_NAME, {"called": name}).first()


def listed(connection: Connection) -> Sequence[Row[Any]]:
    """Return every project, by name."""
    return connection.execute(select(projects).order_by(projects.c.name)).all()


def create(connection: Connection, values: dict[str, Any]) -> int:
    """Make a project and return its number.

    Raises:
      ConflictError: one of this name is there.
    """
    if by_name(connection, values["name"]) is not None:
        raise ConflictError(f"the project {values['name']!r} is there already.", advice="Push to it, or name another.")
    number: int = connection.execute(insert(projects).values(**values).returning(projects.c.id)).scalar_one()
    return number


def change(connection: Connection, project_id: int, values: dict[str, Any]) -> None:
    """Change what is said of a project."""
    connection.execute(update(projects).where(projects.c.id == project_id).values(**values))


def rows_bytes(*, points: int = 0, cases: int = 0, verdicts: int = 0) -> int:
    """Return the bytes that so many rows count for, beside the record that they are of."""
    return points * _POINT_BYTES + cases * _CASE_BYTES + verdicts * _VERDICT_BYTES


def charge(connection: Connection, project_id: int, size: int) -> None:
    """Count ``size`` bytes more for a project, or fewer where it is below 0.

    This is also what makes writers of one project take turns.

    Raises:
      Problem: 413, it would be more than the project's quota.
    """
    if _CHARGE.ask(connection, project=project_id, size=size).changed == 0:
        room = connection.execute(select(projects.c.quota_bytes).where(projects.c.id == project_id)).scalar()
        if room is None:
            raise Problem(404, "the project is gone.")
        raise Problem(
            413,
            f"the project may keep {byte_count(room)}, and {byte_count(size)} more do not fit.",
            "Shorten its retention, or raise its quota.",
        )
