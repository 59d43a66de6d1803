"""Who changed what, and when: rows that are only added, written with the change that they tell of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.redaction import redact
from qwenperf.service.db.tables import audit as table
from qwenperf.service.db.tables import projects
from qwenperf.service.times import iso


def audit(  # noqa: PLR0917  (who, what, of what, more, when: the order in which it is told)
    connection: Connection,
    identity: Identity,
    action: str,
    subject: str,
    detail: Mapping[str, object],
    at: int,
    project_id: int | None = None,
) -> None:
    """Write down a change in the transaction that makes it: either both are kept or neither.

    ``action`` is ``thing.verb`` (``token.create``); texts are kept without secrets.
    """
    values = {
        "at": at,
        "project_id": project_id,
        "actor": identity.name,
        "kind": identity.kind,
        "action": action,
        "subject": redact(subject),
        "detail": redact(json.dumps(dict(detail), sort_keys=True, default=str)),
        "address": identity.address,
    }
    connection.execute(insert(table).values(values))


def told(row: Row[Any]) -> dict[str, Any]:
    """Return a change of ``recent`` as JSON data."""
    names = ("id", "actor", "kind", "action", "subject", "address", "project")
    return {name: getattr(row, name) for name in names} | {"at": iso(row.at), "detail": json.loads(row.detail)}


def was_done(connection: Connection, project_id: int, action: str, subject: str) -> bool:
    """Say whether something was ever done in a project to what has this name."""
    mine = (table.c.project_id == project_id) & (table.c.action == action) & (table.c.subject == redact(subject))
    return connection.execute(select(table.c.id).where(mine).limit(1)).first() is not None


def recent(
    connection: Connection, project_id: int | None, *, limit: int = 200, before: int | None = None
) -> Sequence[Row[Any]]:
    """Return changes in one project (``None``: everywhere) with the project's name, newest first."""
    asked = select(table, projects.c.name.label("project")).join(
        projects, projects.c.id == table.c.project_id, isouter=True
    )
    if project_id is not None:
        asked = asked.where(table.c.project_id == project_id)
    if before is not None:
        asked = asked.where(table.c.id < before)
    return connection.execute(asked.order_by(table.c.id.desc()).limit(limit)).all()
