"""Removes a run because somebody said so: its rows now, in one step for whoever looks; its files by a later job."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.service.auth import audit
from qwenperf.service.auth.audit_log import was_done
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service
from qwenperf.service.db import retention, runs
from qwenperf.service.problems import NotFoundError
from qwenperf.service.texts import words
from qwenperf.service.viewers.viewers import Key, key_of

_ACTION = "run.delete"


def remove_run(service: Service, identity: Identity, project: Row[Any], name: str) -> None:
    """Remove a run with its points, verdicts and alerts; one that was removed before stays so.

    Raises:
      NotFoundError: there never was one of this name.
    """
    at = service.clock()

    def work(connection: Connection) -> Key | None:
        row = runs.by_name(connection, project.id, name)
        if row is None:
            if not was_done(connection, project.id, _ACTION, name):
                raise NotFoundError(f"project {project.name!r} has no run {words(name, 200)!r}.")
            return None
        retention.remove(connection, row)
        detail = {"sha256": row.sha256, "commit": row.commit, "branch": row.branch, "cases": row.cases}
        audit(connection, identity, _ACTION, name, detail, at, project.id)
        return key_of(row)

    gone = service.database.write(work)
    if gone is not None:
        service.viewers.end_of(gone)
        service.counters.add("runs_removed")
