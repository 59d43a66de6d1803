"""Parameters of pages: bounded text, and where a list goes on."""

from __future__ import annotations

import re

from starlette.requests import Request

from qwenperf.service.problems import Problem
from qwenperf.service.texts import holdable

_MOST_TEXT = 500
_CURSOR = re.compile(r"(-?\d{1,18})-(\d{1,18})")


def text(request: Request, name: str) -> str:
    """Return a parameter; empty where it lacks.

    Raises:
      Problem: 422 for one that nothing can match.
    """
    value = request.query_params.get(name, "")
    if len(value) > _MOST_TEXT or not holdable(value):
        raise Problem(422, f"{name!r} has more than {_MOST_TEXT} characters, or one that no name has.")
    return value


def whole(request: Request, name: str) -> int | None:
    """Return a whole number from 0 on; ``None`` where it lacks.

    Raises:
      Problem: 422 for anything else.
    """
    value = text(request, name)
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 15):
        raise Problem(422, f"{name!r} is no whole number.")
    return int(value)


def cursor(request: Request) -> tuple[int, int] | None:
    """Return where a list goes on; ``None`` for its beginning.

    Raises:
      Problem: 422 for what no page of ours wrote.
    """
    value = text(request, "before")
    found = _CURSOR.fullmatch(value)
    if value and found is None:
        raise Problem(422, "'before' is of no page of ours.")
    return (int(found[1]), int(found[2])) if found else None


def name(request: Request, part: str) -> str:
    """Return a part of the address.

    Raises:
      Problem: 404 where nothing can be called so.
    """
    value = str(request.path_params[part])
    if not holdable(value):
        raise Problem(404, f"There is no {part} of this name.")
    return value
