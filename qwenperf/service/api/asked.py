"""What a request asks for: the project and whoever asks, parameters, bodies. Wrong ones are refused in words."""

from __future__ import annotations

import re
import zlib
from typing import Any

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from qwenperf.errors import UsageError, nearest_advice
from qwenperf.schema.hints import show
from qwenperf.service.arrivals import parse
from qwenperf.service.auth import admitted, identify, is_identified
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.problems import NotFoundError, Problem
from qwenperf.service.texts import holdable
from qwenperf.service.times import from_query
from qwenperf.units import byte_count

BODY_LIMIT = 1_000_000
_CURSOR = re.compile(r"(-?\d{1,18})-(\d{1,18})")


def part(request: Request, name: str) -> str:
    """Return a part of the path.

    Raises:
      NotFoundError: nothing can have this name.
    """
    value = str(request.path_params[name])
    if not holdable(value):
        raise NotFoundError(f"there is nothing of the name {show(value)}.")
    return value


def project_of(request: Request, scope: str) -> tuple[Identity, Row[Any]]:
    """Return who asks and the project of the path, before anything else is known of them; errors as ``project_for``."""
    identify(request)  # first: whoever holds one connection must not wait for a second
    with service_of(request).database.read() as connection:
        return project_for(request, connection, scope)


def project_for(request: Request, connection: Connection, scope: str) -> tuple[Identity, Row[Any]]:
    """Return who asks and the project of the path, if they may do what needs ``scope`` in it.

    Raises:
      Problem: 401, 403 or 404.
    """
    identity, name = identify(request), part(request, "project")
    return identity, admitted(identity, projects.by_name(connection, name), name, scope)


def text_of(request: Request, name: str) -> str | None:
    """Return a parameter; ``None`` where it is absent or empty.

    Raises:
      UsageError: it is given twice, or no database can hold it.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise UsageError(f"the parameter {name} is there {len(values)} times.", advice="Give it once.")
    if values and not holdable(values[0]):
        raise UsageError(f"the parameter {name} is {show(values[0])}, which nothing matches.")
    return values[0] if values and values[0] else None


def required(request: Request, name: str) -> str:
    """Return a parameter.

    Raises:
      UsageError: it is absent.
    """
    value = text_of(request, name)
    if value is None:
        raise UsageError(f"the parameter {name} is missing.", advice=f"Add ?{name}=...")
    return value


def whole_of(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Return a whole number.

    Raises:
      UsageError: it is none, or outside of ``low`` to ``high``.
    """
    value = text_of(request, name)
    if value is None:
        return default
    if re.fullmatch(r"-?[0-9]{1,18}", value) is None or not low <= int(value) <= high:
        raise UsageError(f"the parameter {name} is {show(value)}; it is a whole number from {low} to {high}.")
    return int(value)


def time_of(request: Request, name: str) -> int | None:
    """Return a time; ``None`` where it is absent.

    Raises:
      UsageError: it is none.
    """
    value = text_of(request, name)
    return None if value is None else from_query(value, f"the parameter {name}")


def cursor_of(request: Request) -> tuple[int, int] | None:
    """Return where a list goes on; ``None`` at its beginning.

    Raises:
      UsageError: no answer of ours gave this cursor.
    """
    value = text_of(request, "cursor")
    if value is None:
        return None
    found = _CURSOR.fullmatch(value)
    if found is None:
        raise UsageError(f"the cursor is {show(value)}.", advice="Use the `next` of an earlier answer.")
    return int(found[1]), int(found[2])


def one_of(value: str, what: str, known: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``known``.

    Raises:
      UsageError: it is not; the nearest is offered.
    """
    if value not in known:
        raise UsageError(f"{what} is {show(value)}.", advice=nearest_advice(value, known))
    return value


async def body_of(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """Read the body, up to ``limit`` bytes, also of one that is compressed (gzip).

    Who asks is settled before a byte of it is read.

    Raises:
      Problem: 413 for a longer one, 415 for another coding; as ``identify``.
    """
    if not is_identified(request):
        await run_in_threadpool(identify, request)
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise _too_long(limit)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"gzip", "identity", ""}:
        raise Problem(415, f"the body is coded as {show(coding)}.", "Send it as it is, or with gzip.")
    # What unpacks to more than the limit is never unpacked beyond it.
    unpacker = zlib.decompressobj(wbits=31) if coding == "gzip" else None
    data, came = bytearray(), 0
    async for chunk in request.stream():
        came += len(chunk)
        if came > limit + limit // 64 + 1024:  # what cannot be packed grows by a little
            raise _too_long(limit)
        data += chunk if unpacker is None else _unpacked(unpacker, chunk, limit + 1 - len(data))
        if len(data) > limit:
            raise _too_long(limit)
    if unpacker is not None and not unpacker.eof:
        raise Problem(400, "the body ends within its gzip stream.", "Send it whole.")
    return bytes(data)


def _unpacked(unpacker: Any, chunk: bytes, room: int) -> bytes:
    try:
        unpacked: bytes = unpacker.decompress(chunk, room)
    except zlib.error as error:
        raise Problem(400, "the body is no gzip stream.", "Leave Content-Encoding out, or compress it.") from error
    if unpacker.unused_data:
        raise Problem(400, "the body goes on behind its gzip stream.", "Send one stream and nothing else.")
    return unpacked


def _too_long(limit: int) -> Problem:
    return Problem(413, f"the body is longer than {byte_count(limit)}.", "Send less at once.")


def object_of(data: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON object of a body, which has no keys but ``known``.

    Raises:
      RecordError: it is not JSON.
      UsageError: it is no object, or has a key that nobody reads.
    """
    document = parse(data, "the body")
    if not isinstance(document, dict):
        raise UsageError(f"the body is {show(document)}, which is no JSON object.")
    for key in document:
        if key not in known:
            raise UsageError(f"the body has the key {show(key)}.", advice=nearest_advice(key, known))
    return document


def field_of(document: dict[str, Any], name: str, kind: type, default: Any = ...) -> Any:
    """Return one value of a body's object.

    Raises:
      UsageError: it is missing, of another type, or no database can hold it.
    """
    if name not in document:
        if default is ...:
            raise UsageError(f"{name} is missing.", advice=f"Found: {', '.join(document) or 'no key'}.")
        return default
    value = document[name]
    if value is None and default is None:
        return None
    is_flag = isinstance(value, bool) and kind is not bool
    if not isinstance(value, kind) or is_flag:
        noun = {str: "text", int: "a whole number", bool: "true or false", dict: "an object"}[kind]
        raise UsageError(f"{name} is {show(value)}, which is not {noun}.")
    if isinstance(value, str) and not holdable(value.replace("\n", " ").replace("\t", " ")):
        raise UsageError(f"{name} is {show(value)}, which nothing can hold.", advice="Leave control characters out.")
    if isinstance(value, int) and not -(2**62) < value < 2**62:
        raise UsageError(f"{name} is {show(value)}, which is too large.")
    return value
