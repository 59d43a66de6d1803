"""Small JSON bodies in and out, for the routes of this room: bounded, typed, and without surprises."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from qwenperf.service.problems import Problem

_MOST_BYTES = 64 * 1024
_MOST_TEXT = 200
Answer = tuple[int, Mapping[str, Any]]
Body = Mapping[str, Any]


def taking(work: Callable[[Request, Body], Answer]) -> Callable[[Request], Any]:
    """Return a handler that reads a JSON object and answers with what ``work`` returns, in a thread."""

    async def handler(request: Request) -> Response:
        status, data = await run_in_threadpool(work, request, await read(request))
        return answer(status, data)

    return handler


def answer(status: int, data: Mapping[str, Any]) -> Response:
    """Return JSON that nobody keeps: it may hold a secret."""
    if status == 204:
        return Response(status_code=204)
    return JSONResponse(data, status, {"Cache-Control": "no-store"})


async def read(request: Request) -> Body:
    """Return the JSON object that a request carries.

    Raises:
      Problem: 413 for too much, 422 for anything but an object.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise Problem(413, f"The body has more than {_MOST_BYTES} bytes.", "Send less.")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "The body is no JSON.", "Send a JSON object.") from error
    if not isinstance(data, dict):
        raise Problem(422, "The body is no JSON object.", "Send a JSON object.")
    return data


def known(data: Body, *names: str) -> None:
    """Refuse keys that would be ignored.

    Raises:
      Problem: 422, naming the first.
    """
    for key in data:
        if key not in names:
            raise Problem(422, f"Unknown key {key[:40]!r}.", f"Known: {', '.join(names)}.")


def text(data: Body, name: str, *, most: int = _MOST_TEXT) -> str:
    """Return a line of text.

    Raises:
      Problem: 422 where it lacks, is empty, too long, or holds what is no text.
    """
    return line(data.get(name), name, most=most)


def line(value: object, name: str, *, most: int = _MOST_TEXT) -> str:
    """Return ``value`` as a line of text.

    Raises:
      Problem: 422, as ``text`` says.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > most or not value.isprintable():
        raise Problem(422, f"{name!r} is no line of 1 to {most} printable characters.", "Send it as text.")
    return value.strip()


def patterns(data: Body, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list of patterns, or ``default`` where there is none.

    Raises:
      Problem: 422 where it is no list of lines.
    """
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, list) or len(value) > 50:
        raise Problem(422, f"{name!r} is no list of at most 50 patterns.", 'Send ["refs/heads/*"], for example.')
    return tuple(line(one, name) for one in value)
