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
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import alerts, files, sizes
from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import comparisons, records, runs
from qwenperf.service.large import LARGE, pieces
from qwenperf.service.writing_json import compact

_AT_ONCE, _BYTES_AT_ONCE = 10, 10_000_000
_Entry = tuple[str, dict[str, Any], Row[Any] | None]
"""Its type, what is said of it, and the record that came, as it is kept."""


def export(request: Request) -> Response:
    """Stream a project, one JSON object a line; the last line says that nothing is missing."""
    service = service_of(request)
    with service.database.read() as connection:
        _, project = project_for(request, connection, "read")
    headers = {"Content-Disposition": f'attachment; filename="{project.name}.jsonl"'}
    return StreamingResponse(_lines(service, project), headers=headers, media_type="application/x-ndjson")


def _lines(service: Service, project: Row[Any]) -> Iterator[bytes]:
    count = 0
    for kind, data, kept in _entries(service.database, project):
        count += 1
        line = compact({"type": kind, **data}).encode()
        if kept is None:
            yield line + b"\n"
            continue
        # A record goes out as it is kept: nobody reads it here, and of a large one no more is held than a piece.
        parts = chain((line[:-1] + b',"record":',), pieces(kept.body), (b"}\n",))
        yield from (b"".join(parts),) if kept.size <= LARGE else parts
    yield compact({"type": "end", "entries": count}).encode() + b"\n"


def _entries(database: Database, project: Row[Any]) -> Iterator[_Entry]:
    """Yield what there is. No connection is held while a line waits for a reader, who may be slow or gone."""
    yield "project", shapes.project(project), None
    for row, kept, lying in _each(database, runs, files.of_run, project.id):
        yield "run", shapes.run(row) | _files(lying), kept
    for row, kept, lying in _each(database, comparisons, files.of_comparison, project.id):
        yield "comparison", shapes.comparison(row) | _files(lying), kept
    with database.read() as connection:
        said = alerts.accepted_changes(connection, project.id, limit=1_000_000)
        found = alerts.recent(connection, project.id, limit=1_000_000)
    for row in said:
        yield "accepted", shapes.acceptance(row), None
    for row in found:
        yield "alert", shapes.alert(row), None


def _files(lying: Sequence[Row[Any]]) -> dict[str, Any]:
    return {"files": [shapes.file(file) for file in lying]}


def _each(
    database: Database, table: Table, of: Callable[[Connection, int], Sequence[Row[Any]]], project_id: int
) -> Iterator[tuple[Row[Any], Row[Any], Sequence[Row[Any]]]]:
    """Yield the rows of a project with their records and files, a few at a time."""
    last = 0
    query = select(table, records.c.size).join(records, records.c.id == table.c.record_id)
    query = query.where(table.c.project_id == project_id).order_by(table.c.id).limit(_AT_ONCE)
    while True:
        with database.read() as connection:
            rows = list(_few(connection.execute(query.where(table.c.id > last)).all()))
            kept = [sizes.packed(connection, row.record_id) for row in rows]
            lying = [of(connection, row.id) for row in rows]
        if not rows:
            return
        yield from zip(rows, kept, lying, strict=True)
        last = rows[-1].id


def _few(rows: Sequence[Row[Any]]) -> Iterator[Row[Any]]:
    """Yield the first rows, one at least, whose records are not large together."""
    size = 0
    for row in rows:
        if size and size + row.size > _BYTES_AT_ONCE:
            return
        size += row.size
        yield row
