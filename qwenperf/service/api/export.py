"""Everything of a project as JSON lines: what came in, as it came, and what was said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row, Table, select
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from qwenperf.service.api import shapes
from qwenperf.service.api.asked import project_for
from qwenperf.service.auth import audit_log
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import alerts, files, sizes
from qwenperf.service.db.database import Database
from qwenperf.service.db.runs import verdicts_of
from qwenperf.service.db.tables import comparisons, records, runs
from qwenperf.service.large import LARGE, pieces
from qwenperf.service.writing_json import compact

_AT_ONCE, _BYTES_AT_ONCE = 10, 10_000_000
_CHANGES = 1000
_Entry = tuple[str, dict[str, Any], Row[Any] | None]
"""Its type, what is said of it, and the record that came, as it is kept."""


def export(request: Request) -> Response:
    """Stream a project, one JSON object a line; the last line says that nothing is missing."""
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "read")
    manages = identity.may("admin", project.id, public=False)
    headers = {"Content-Disposition": f'attachment; filename="{project.name}.jsonl"'}
    return StreamingResponse(
        _lines(service, project, manages=manages), headers=headers, media_type="application/x-ndjson"
    )


def _lines(service: Service, project: Row[Any], *, manages: bool) -> Iterator[bytes]:
    count = 0
    for kind, data, kept in _entries(service.database, project, manages=manages):
        count += 1
        line = compact({"type": kind, **data}).encode()
        if kept is None:
            yield line + b"\n"
            continue
        # A record goes out as it is kept: nobody reads it here, and of a large one no more is held than a piece.
        parts = chain((line[:-1] + b',"record":',), pieces(kept.body), (b"}\n",))
        yield from (b"".join(parts),) if kept.size <= LARGE else parts
    yield compact({"type": "end", "entries": count}).encode() + b"\n"


def _entries(database: Database, project: Row[Any], *, manages: bool) -> Iterator[_Entry]:
    """Yield what there is. No connection is held while a line waits for a reader, who may be slow or gone."""
    yield "project", shapes.project_in_full(project), None
    for row, kept, said in _each(database, runs, project.id, _of_run):
        yield "run", shapes.run(row) | said, kept
    for row, kept, said in _each(database, comparisons, project.id, _of_comparison):
        yield "comparison", shapes.comparison(row) | said, kept
    with database.read() as connection:
        accepted = alerts.accepted_changes(connection, project.id, limit=1_000_000)
        found = alerts.recent(connection, project.id, limit=1_000_000)
    for row in accepted:
        yield "accepted", shapes.acceptance(row), None
    for row in found:
        yield "alert", shapes.alert(row), None
    for row in _changes(database, project.id) if manages else ():
        yield "change", audit_log.told(row), None


def _of_run(connection: Connection, number: int) -> dict[str, Any]:
    return _said(files.of_run(connection, number), verdicts_of(connection, run_id=number))


def _of_comparison(connection: Connection, number: int) -> dict[str, Any]:
    return _said(files.of_comparison(connection, number), verdicts_of(connection, comparison_id=number))


def _said(lying: Sequence[Row[Any]], verdicts: Sequence[Row[Any]]) -> dict[str, Any]:
    """Return what is kept of a record beside it; verdicts here may be by the project's budgets, and not in it."""
    return {"files": [shapes.file(one) for one in lying], "verdicts": [shapes.verdict(one) for one in verdicts]}


def _changes(database: Database, project_id: int) -> Iterator[Row[Any]]:
    """Yield the audit log of a project, the newest first, a part at a time."""
    before: int | None = None
    while True:
        with database.read() as connection:
            rows = audit_log.recent(connection, project_id, limit=_CHANGES, before=before)
        yield from rows
        if len(rows) < _CHANGES:
            return
        before = rows[-1].id


def _each(
    database: Database, table: Table, project_id: int, of: Callable[[Connection, int], dict[str, Any]]
) -> Iterator[tuple[Row[Any], Row[Any], dict[str, Any]]]:
    """Yield the rows of a project with their records and what is said of each, a few at a time."""
    last = 0
    query = select(table, records.c.size).join(records, records.c.id == table.c.record_id)
    query = query.where(table.c.project_id == project_id).order_by(table.c.id).limit(_AT_ONCE)
    while True:
        with database.read() as connection:
            rows = list(_few(connection.execute(query.where(table.c.id > last)).all()))
            kept = [sizes.packed(connection, row.record_id) for row in rows]
            said = [of(connection, row.id) for row in rows]
        if not rows:
            return
        yield from zip(rows, kept, said, strict=True)
        last = rows[-1].id


def _few(rows: Sequence[Row[Any]]) -> Iterator[Row[Any]]:
    """Yield the first rows, one at least, whose records are not large together."""
    size = 0
    for row in rows:
        if size and size + row.size > _BYTES_AT_ONCE:
            return
        size += row.size
        yield row
