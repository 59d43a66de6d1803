"""A run or comparison as one archive: record and files, as a folder that viewers of traces and ``qwenperf`` read.

The archive is written while it is sent, so that its size costs no memory; a record is in lines, for people, unless it
is large. Paths were checked when the files came.
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

from qwenperf.service.arrivals import unpack
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import files, sizes
from qwenperf.service.db.uploads import RECORDS
from qwenperf.service.large import LARGE, pieces
from qwenperf.service.web.named import named
from qwenperf.service.web.pages import opened

_BLOCK = tarfile.BLOCKSIZE


def send(request: Request) -> Response:
    """Send record and files of a run or comparison as a tar archive."""
    _, project = opened(request)
    service = service_of(request)
    with service.database.read() as connection:
        one = named(request, connection, project.id)
        kept = sizes.packed(connection, one.row.record_id)
        lying = files.of(connection, one.owner)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(one.name, safe='')}.tar"}
    at = (one.row.measured_at if one.kind == "run" else one.row.created_at) // 1_000_000
    parts = _archive(service, project.id, name=one.name, file=RECORDS[one.kind], kept=kept, lying=lying, at=at)
    return StreamingResponse(parts, 200, headers, "application/x-tar")


def _archive(
    service: Service, project_id: int, *, name: str, file: str, kept: Row[Any], lying: Sequence[Row[Any]], at: int
) -> Iterator[bytes]:
    if kept.size <= LARGE:
        record = json.dumps(unpack(kept.body), indent=1).encode()
        size, parts = len(record), iter([record])
    else:
        size, parts = kept.size, pieces(kept.body)
    yield _head(f"{name}/{file}", size, at)
    yield from parts
    yield _rest(size)
    for one in lying:
        if one.path == file:
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
