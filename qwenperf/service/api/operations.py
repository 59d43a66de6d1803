"""One entry of the interface: what it answers, to whom, and what it takes, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Response] | Callable[[Request], Awaitable[Response]]
Schema = Mapping[str, Any]

PREFIX = "/api/v1"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a query or header, and the JSON Schema of its value."""

    name: str
    schema: Schema
    about: str
    place: str = "query"
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
      id: stable name, for clients that are generated.
      scope: what the token must be good for; empty is anybody.
      answers: by status, what is sent: a JSON Schema, or the media type of what is no JSON, or ``None`` for no body.
      body: JSON Schema of the request's body, or its media type.
    """

    id: str
    method: str
    path: str
    handler: Handler
    about: str
    scope: str = ""
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, Schema | str | None] = field(default_factory=dict)
    body: Schema | str | None = None
    problems: tuple[int, ...] = ()


def text(about: str = "", **more: Any) -> dict[str, Any]:
    """Return the schema of text."""
    return {"type": "string", **({"description": about} if about else {}), **more}


def whole(about: str = "", **more: Any) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return {"type": "integer", **({"description": about} if about else {}), **more}


def real(about: str = "") -> dict[str, Any]:
    """Return the schema of a number."""
    return {"type": "number", **({"description": about} if about else {})}


def flag(about: str = "") -> dict[str, Any]:
    """Return the schema of a truth value."""
    return {"type": "boolean", **({"description": about} if about else {})}


def maybe(schema: Schema) -> dict[str, Any]:
    """Return the schema of something that may be null."""
    return {"anyOf": [dict(schema), {"type": "null"}]}


def many(schema: Schema) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": dict(schema)}


def thing(optional: Mapping[str, Any] | None = None, /, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has all of ``properties`` and may have those of ``optional``."""
    return {"type": "object", "required": sorted(properties), "properties": {**properties, **(optional or {})}}


def named(name: str) -> dict[str, Any]:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


LIMIT = Parameter(
    name="limit", schema=whole(minimum=1, maximum=1000, default=50), about="So many entries at most (default: 50)."
)
CURSOR = Parameter(name="cursor", schema=text(), about="The `next` of an earlier answer: goes on behind it.")
