"""Everything of a project as JSON lines: what came in, as it came, and what was said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, select
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from qwenperf.service.api import shapes
from qwenperf.service.api.asked import project_for
from qwenperf.service.arrivals import unpack
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import alerts, files
from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import comparisons, records, runs
from qwenperf.service.writing_json import compact

_AT_ONCE = 10


def export(request: Request) -> Response:
    """Stream a project, one JSON object a line; the last line says that nothing is missing."""
    service = service_of(request)
    with service.database.read() as connection:
        _, project = project_for(request, connection, "read")
    headers = {"Content-Disposition": f'attachment; filename="{project.name}.jsonl"'}
    return StreamingResponse(_lines(service, project), headers=headers, media_type="application/x-ndjson")


def _lines(service: Service, project: Row[Any]) -> Iterator[bytes]:
    count = 0
    for kind, data in _entries(service.database, project):
        count += 1
        yield compact({"type": kind, **data}).encode() + b"\n"
    yield compact({"type": "end", "entries": count}).encode() + b"\n"


def _entries(database: Database, project: Row[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what there is. No connection is held while a line waits for a reader, who may be slow or gone."""
    yield "project", shapes.project(project)
    for row, lying in _each(database, runs, files.of_run, project.id):
        yield "run", shapes.run(row) | _sent(row, lying)
    for row, lying in _each(database, comparisons, files.of_comparison, project.id):
        yield "comparison", shapes.comparison(row) | _sent(row, lying)
    with database.read() as connection:
        said = alerts.accepted_changes(connection, project.id, limit=1_000_000)
        found = alerts.recent(connection, project.id, limit=1_000_000)
    for row in said:
        yield "accepted", shapes.acceptance(row)
    for row in found:
        yield "alert", shapes.alert(row)


def _sent(row: Row[Any], lying: Sequence[Row[Any]]) -> dict[str, Any]:
    return {"files": [shapes.file(file) for file in lying], "record": unpack(row.body)}


def _each(
    database: Database, table: Table, of: Callable[[Connection, int], Sequence[Row[Any]]], project_id: int
) -> Iterator[tuple[Row[Any], Sequence[Row[Any]]]]:
    """Yield the rows of a project with their records and files, a few at a time."""
    last = 0
    query = select(table, records.c.body).join(records, records.c.id == table.c.record_id)
    query = query.where(table.c.project_id == project_id).order_by(table.c.id).limit(_AT_ONCE)
    while True:
        with database.read() as connection:
            rows = connection.execute(query.where(table.c.id > last)).all()
            lying = [of(connection, row.id) for row in rows]
        if not rows:
            return
        yield from zip(rows, lying, strict=True)
        last = rows[-1].id
