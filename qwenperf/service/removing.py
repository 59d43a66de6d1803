"""Removes a record because somebody said so: its rows now, in one step for whoever looks; its files by a later job."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.service.auth import audit
from qwenperf.service.auth.audit_log import was_done
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service
from qwenperf.service.db import comparisons, retention, runs
from qwenperf.service.db.files import Kind
from qwenperf.service.problems import NotFoundError
from qwenperf.service.texts import words
from qwenperf.service.viewers.viewers import Key, key_of

_FIND = {"run": runs.by_name, "comparison": comparisons.by_name}
_REMOVE = {"run": retention.remove, "comparison": retention.remove_comparison}
_TOLD = {
    "run": ("sha256", "commit", "branch", "cases"),
    "comparison": ("sha256", "base_commit", "head_commit", "cases"),
}
"""What the audit log keeps of each."""


def remove(service: Service, identity: Identity, project: Row[Any], kind: Kind, name: str) -> None:
    """Remove a run or comparison with all that is its own; one that was removed before stays so.

    Raises:
      NotFoundError: there never was one of this name.
    """
    at, action = service.clock(), f"{kind}.delete"

    def work(connection: Connection) -> Key | None:
        row = _FIND[kind](connection, project.id, name)
        if row is None:
            if not was_done(connection, project.id, action, name):
                raise NotFoundError(f"project {project.name!r} has no {kind} {words(name, 200)!r}.")
            return None
        _REMOVE[kind](connection, row)
        detail = {field: getattr(row, field) for field in _TOLD[kind]}
        audit(connection, identity, action, name, detail, at, project.id)
        return key_of(kind, row)

    gone = service.database.write(work)
    if gone is not None:
        service.viewers.end_of(gone)
        service.counters.add(f"{kind}s_removed")
