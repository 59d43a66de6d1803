"""Files of runs and comparisons: announced with size and SHA-256, sent in parts from any offset on, and read again.

An archive is a file like any other: nothing is ever unpacked here.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from qwenperf.errors import UsageError
from qwenperf.schema.hints import show
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, field_of, object_of, part, project_of
from qwenperf.service.api.records import comparison_for, run_for
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import files, uploads
from qwenperf.service.db.files import Kind, Owner
from qwenperf.service.files import BLOCK
from qwenperf.service.problems import ConflictError, NotFoundError, Problem, ServiceUnavailableError
from qwenperf.units import byte_count

_FIELDS = ("path", "sha256", "size")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
OFFSET = "Upload-Offset"


@dataclass(frozen=True, kw_only=True)
class _Record:
    """A run or comparison that an address names, with its project, and who asks."""

    project: Row[Any]
    row: Row[Any]
    identity: Identity
    owner: Owner


def _record(request: Request, connection: Connection, scope: str) -> _Record:
    """Return what the path names; errors as ``run_for``."""
    kind: Kind = "run" if "run" in request.path_params else "comparison"
    find = run_for if kind == "run" else comparison_for
    project, row, identity = find(request, connection, scope)
    return _Record(project=project, row=row, identity=identity, owner=Owner(kind, row.id))


def _check_there(connection: Connection, record: _Record) -> None:
    if not files.is_there(connection, record.owner, record.row):
        raise NotFoundError(f"the {record.owner.kind} {record.row.name!r} was removed.")


async def announce(request: Request) -> Response:
    """Announce a file of a run or comparison; the answer says where to send it, and from which byte on."""
    data = await body_of(request)
    return await run_in_threadpool(_announce, request, data)


def _announce(request: Request, data: bytes) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        record = _record(request, connection, "push")
    document = object_of(data, _FIELDS)
    wanted = uploads.Announced(
        project_id=record.project.id,
        owner=record.owner,
        path=uploads.safe_path(field_of(document, "path", str)),
        sha256=_sha256(field_of(document, "sha256", str)),
        size=_size(field_of(document, "size", int), service.settings.file_limit),
    )
    at, name = service.clock(), secrets.token_hex(16)

    def work(connection: Connection) -> Row[Any] | None:
        # Once more: it may have gone, and SQLite gives its number to the next one.
        _check_there(connection, record)
        return uploads.announce(connection, wanted, upload=name, at=at, by=record.identity.name)

    row = service.database.write(work)
    if row is None:
        return shapes.answer({"upload": None, "offset": wanted.size, "size": wanted.size, "complete": True})
    place = f"/api/v1/projects/{record.project.name}/uploads/{row.id}"
    told = {"upload": row.id, "offset": row.received, "size": row.size, "complete": False}
    return shapes.answer(told, 200 if row.id != name else 201, {"Location": place, OFFSET: str(row.received)})


def _sha256(text: str) -> str:
    if _SHA256.fullmatch(text) is None:
        raise UsageError(f"sha256 is {show(text)}, which is none.", advice="Send 64 small hexadecimal digits.")
    return text


def _size(size: int, limit: int) -> int:
    if size < 0:
        raise UsageError(f"size is {size}; it is at least 0.")
    if size > limit:
        raise Problem(413, f"the file has {byte_count(size)}; {byte_count(limit)} are taken.", "Trace fewer steps.")
    return size


def _upload_for(request: Request, service: Service) -> Row[Any]:
    _, project = project_of(request, "push")
    with service.database.read() as connection:
        return uploads.by_id(connection, project.id, part(request, "upload"))


def show_upload(request: Request) -> Response:
    """Say how far an upload has come."""
    row = _upload_for(request, service_of(request))
    headers = {OFFSET: str(row.received), "Upload-Length": str(row.size), "Cache-Control": "no-store"}
    return shapes.answer(_progress(row, row.received), headers=headers)


def _progress(row: Row[Any], received: int) -> dict[str, Any]:
    return {"upload": row.id, "path": row.path, "offset": received, "size": row.size, "complete": False}


async def append(request: Request) -> Response:
    """Take the bytes of an upload from an offset on; what arrives before a connection breaks is kept."""
    service = service_of(request)
    row = await run_in_threadpool(_upload_for, request, service)
    offset = _offset(request)
    if offset != row.received:
        advice = f"Go on at {row.received}."
        raise Problem(409, f"the upload is at {row.received}, not at {offset}.", advice, {OFFSET: str(row.received)})
    try:
        size = await _receive(request, service, row) if offset < row.size else await _nothing(request)
    except (ConflictError, FileNotFoundError) as error:
        raise await run_in_threadpool(_overtaken, request, service) from error
    if offset + size < row.size:
        return shapes.answer(_progress(row, offset + size), headers={OFFSET: str(offset + size)})
    return await run_in_threadpool(_complete, service, row)


def _overtaken(request: Request, service: Service) -> Problem:
    """Say where an upload is after somebody else went on with it, ended it or gave it up: then that it is gone."""
    at = str(_upload_for(request, service).received)
    return Problem(409, "somebody else went on with this upload.", f"Go on at {at}.", {OFFSET: at})


def _offset(request: Request) -> int:
    text = request.headers.get(OFFSET, "")
    if re.fullmatch(r"\d{1,18}", text) is None:
        raise UsageError(f"the header {OFFSET} is {show(text)}.", advice="Send the offset of the first byte.")
    return int(text)


async def _nothing(request: Request) -> int:
    async for chunk in request.stream():
        if chunk:
            raise Problem(413, "the upload has all its bytes already.", "Send none.")
    return 0


async def _receive(request: Request, service: Service, row: Row[Any]) -> int:
    """Write the body to a part that is durable before it counts, and return its size."""
    name = f"{row.received:018d}-{secrets.token_hex(8)}"
    blocks = _blocks(request, row.size - row.received)
    opened = service.files.new_part(row.id, name)
    file = await run_in_threadpool(opened.__enter__)
    size = 0
    try:
        async for block in blocks:
            await run_in_threadpool(file.write, block)
            size += len(block)
    except BaseException as error:
        await run_in_threadpool(opened.__exit__, type(error), error, error.__traceback__)
        raise
    await run_in_threadpool(opened.__exit__, None, None, None)
    at = service.clock()

    def work(connection: Connection) -> None:
        uploads.received(connection, row.id, row.received, size, name=name, at=at)

    try:
        if size:
            await run_in_threadpool(service.database.write, work)
    except BaseException:
        await run_in_threadpool(service.files.drop_part, row.id, name)
        raise
    return size


async def _blocks(request: Request, room: int) -> AsyncIterator[bytes]:
    """Yield the body in blocks; it ends early where the sender goes away, and what came is good.

    Raises:
      Problem: 413, there is more than was announced.
    """
    held = bytearray()
    seen = 0
    try:
        async for chunk in request.stream():
            seen += len(chunk)
            if seen > room:
                raise Problem(413, "there are more bytes than were announced.", "Announce the file with its size.")
            held += chunk
            if len(held) >= BLOCK:
                yield bytes(held)
                held.clear()
    except ClientDisconnect:
        pass
    if held:
        yield bytes(held)


def _complete(service: Service, row: Row[Any]) -> Response:
    """Check what was received and make it a file of its record, in one step for whoever looks."""
    with service.database.read() as connection:
        uploads.by_id(connection, row.project_id, row.id)
        names = uploads.parts(connection, row.id)
    try:
        name = service.files.assemble(row.project_id, row.id, names, row.sha256)
    except FileNotFoundError as error:
        # Completed or given up by somebody else since; or its parts are lost, and it begins anew.
        service.database.write(lambda connection: uploads.give_up(connection, row))
        raise NotFoundError("this upload is over.", advice="Announce the file again.") from error
    if name is None:
        if service.database.write(lambda connection: uploads.give_up(connection, row)):
            service.files.drop_upload(row.project_id, row.id, row.sha256)
        raise Problem(422, f"what came is not the announced {row.path}: its SHA-256 differs.", "Send it again, whole.")
    at = service.clock()
    if not service.database.write(lambda connection: uploads.complete(connection, row, name=name, at=at)):
        raise NotFoundError("this upload was given up.", advice="Announce the file again.")
    # Somebody else may be writing there still; what is left then is swept later.
    with suppress(ServiceUnavailableError):
        service.files.drop_parts(row.id)
    service.counters.add("files_received")
    service.counters.add("file_bytes_received", row.size)
    return shapes.answer(_progress(row, row.size) | {"complete": True}, headers={OFFSET: str(row.size)})


def give_up(request: Request) -> Response:
    """Forget an upload and what has come of it."""
    service = service_of(request)
    row = _upload_for(request, service)
    if not service.database.write(lambda connection: uploads.give_up(connection, row)):
        raise NotFoundError("this upload is over.", advice="List the files of its record: it may be one of them.")
    service.files.drop_upload(row.project_id, row.id, row.sha256)
    return Response(status_code=204)


def list_files(request: Request) -> Response:
    """List the files of a run or comparison."""
    with service_of(request).database.read() as connection:
        rows = files.of(connection, _record(request, connection, "read").owner)
    return shapes.answer({"files": [shapes.file(row) for row in rows]})


def read_file(request: Request) -> Response:
    """Return a file of a record, or a range of its bytes. It is data to be kept, never a page to be shown."""
    service, path = service_of(request), part(request, "path")
    with service.database.read() as connection:
        record = _record(request, connection, "read")
        row = files.at_path(connection, record.owner, path)
    if row is None:
        raise NotFoundError(f"{record.owner.kind} {record.row.name} has no file {path!r}.")
    start, end, status = _range(request.headers.get("range", ""), row.size)
    headers = {
        "Content-Length": str(end - start),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}",
        "ETag": f'"{row.sha256}"',
        "Accept-Ranges": "bytes",
    }
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{row.size}"
    blocks: Iterator[bytes] = service.files.read(record.project.id, row.name, start, end) if end > start else iter(())
    # The first block now: a store that refuses is an answer of its own, and not half a file.
    first = _first(blocks)
    return StreamingResponse(first, status, headers, media_type="application/octet-stream")


def _first(blocks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        block = next(blocks, b"")
    except FileNotFoundError as error:
        raise Problem(503, "the file store has lost this file.", "Restore it from a backup.") from error

    def rest() -> Iterator[bytes]:
        if block:
            yield block
        yield from blocks

    return rest()


def _range(header: str, size: int) -> tuple[int, int, int]:
    """Return the first byte, the one behind the last, and the status; a range of another kind is not honoured."""
    found = _RANGE.fullmatch(header)
    if found is None:
        return 0, size, 200
    start, end = int(found[1]), int(found[2]) + 1 if found[2] else size
    if start >= size or end <= start:
        raise Problem(416, f"the file has {size} bytes.", "", {"Content-Range": f"bytes */{size}"})
    return start, min(end, size), 206
