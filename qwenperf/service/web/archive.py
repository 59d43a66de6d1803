"""A run as one archive: its record and its files, as a folder that viewers of traces and ``qwenperf`` read.

The archive is written while it is sent, so that its size costs no memory. Paths were checked when the files came.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from qwenperf.service.context import Service, service_of
from qwenperf.service.db import files, runs
from qwenperf.service.problems import Problem
from qwenperf.service.web import asked
from qwenperf.service.web.pages import opened

_RECORD = "run.json"
_BLOCK = tarfile.BLOCKSIZE


def send(request: Request) -> Response:
    """Send record and files of a run as a tar archive."""
    _, project = opened(request)
    name, service = asked.name(request, "run"), service_of(request)
    with service.database.read() as connection:
        row = runs.by_name(connection, project.id, name)
        if row is None:
            raise Problem(404, "There is no such run in this project.", "The list of runs has all of them.")
        record = json.dumps(runs.record(connection, row.record_id), indent=1).encode()
        lying = files.of_run(connection, row.id)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.tar"}
    at = row.measured_at // 1_000_000
    parts = _archive(service, project.id, name=name, record=record, lying=lying, at=at)
    return StreamingResponse(parts, 200, headers, "application/x-tar")


def _archive(
    service: Service, project_id: int, *, name: str, record: bytes, lying: Sequence[Row[Any]], at: int
) -> Iterator[bytes]:
    yield _head(f"{name}/{_RECORD}", len(record), at)
    yield record
    yield _rest(len(record))
    for one in lying:
        if one.path == _RECORD:
            continue
        yield _head(f"{name}/{one.path}", one.size, at)
        yield from service.files.read(project_id, one.name)
        yield _rest(one.size)
    yield bytes(2 * _BLOCK)


def _head(path: str, size: int, at: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size, info.mtime, info.mode = size, at, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


def _rest(size: int) -> bytes:
    return bytes(-size % _BLOCK)
