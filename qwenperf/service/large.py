"""Large records: few at a time are in memory as values, which take many times their text, whoever sends or reads them.

What only passes a record on sends its text as it is unpacked, and holds no more of it than a piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import anyio
from sqlalchemy import Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.context import service_of
from qwenperf.service.db import sizes
from qwenperf.service.texts import holdable

LARGE = 2_000_000
"""Bytes of JSON; below that, as many at a time as there are threads."""

AT_ONCE = 2
_PIECE = 1 << 20


async def in_turn(request: Request, size: int, work: Callable[[], Response]) -> Response:
    """Run ``work`` on records of ``size`` bytes in a thread; large ones wait for each other, and not in a thread."""
    if size <= LARGE:
        return await run_in_threadpool(work)
    return await anyio.to_thread.run_sync(work, limiter=getattr(request.app.state, "large", None))


def sparing(
    show: Callable[[Request], Response], admitted: Callable[[Request], Row[Any]]
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that shows the record or records of an address, large ones in turn.

    ``admitted`` returns the project of the address, or raises where whoever asks may not read it: a stranger waits for
    nothing and makes nobody wait.
    """

    async def handler(request: Request) -> Response:
        size = await run_in_threadpool(_size, request, admitted)
        return await in_turn(request, size, partial(show, request))

    return handler


def _size(request: Request, admitted: Callable[[Request], Row[Any]]) -> int:
    project = admitted(request)
    path, query = request.path_params, request.query_params
    kind = "comparison" if "comparison" in path else "run"
    given = [path[kind]] if kind in path else [query.get("base", ""), query.get("head", "")]
    names = [str(name) for name in given if holdable(str(name))]
    with service_of(request).database.read() as connection:
        return sizes.together(connection, project.id, kind, names)


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield the text of a packed record, piece by piece."""
    unpacker = zlib.decompressobj()
    while not unpacker.eof:
        piece = unpacker.decompress(body, _PIECE)
        body = unpacker.unconsumed_tail
        if not piece and not body:
            return
        yield piece
