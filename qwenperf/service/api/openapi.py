"""The OpenAPI 3.1 document, made from the table of operations: what is published is what is routed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.api import shapes
from qwenperf.service.api.operations import Operation, Parameter, Schema, named
from qwenperf.service.api.schemas import SCHEMAS

_MEANING = {
    400: "The request cannot be read.", 401: "No good token.", 403: "The token's scope is too small.",
    404: "It is not there, or you may not know of it.", 409: "It contradicts what is there.",
    413: "It is too large, or the project has no room.", 415: "It is coded in a way that nobody reads.",
    416: "There are no such bytes.", 422: "It can be read, and is wrong; the error says where.",
    429: "Too many requests; Retry-After says when.", 503: "Database or files cannot be reached; try again.",
}  # fmt: skip
_KNOWN = Parameter(
    name="If-None-Match", schema={"type": "string"}, about="The ETag of an earlier answer.", place="header"
)


@cache
def document() -> dict[str, Any]:
    """Return the document."""
    from qwenperf.service.api.table import OPERATIONS
    from qwenperf.service.auth.openapi import PATHS

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "qwenperf",
            "version": metadata.version("qwenperf"),
            "description": "Runs, series and comparisons of performance, one place for every machine.",
        },
        "paths": _paths(OPERATIONS) | PATHS,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def show(request: Request) -> Response:  # noqa: ARG001  (a handler's signature)
    """Publish the document."""
    return shapes.answer(document())


def _paths(operations: Iterable[Operation]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _entry(operation)
    return paths


def _entry(operation: Operation) -> dict[str, Any]:
    inside = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    entry: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.about,
        "parameters": inside + [_parameter(one) for one in (*operation.parameters, *_conditions(operation))],
        "responses": _responses(operation),
        "security": [{"token": []}, {}] if operation.scope in {"", "read"} else [{"token": []}],
    }
    if operation.scope:
        entry["description"] = f"Needs scope `{operation.scope}`."
    if operation.body is not None:
        entry["requestBody"] = {"required": True, "content": _content(operation.body)}
    return entry


def _conditions(operation: Operation) -> tuple[Parameter, ...]:
    """Return what lets a question be answered by 304, where somebody has the answer already."""
    return (_KNOWN,) if operation.method == "GET" and operation.path.startswith("/api/") else ()


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.place,
        "description": one.about,
        "required": one.required,
        "schema": dict(one.schema),
    }


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, sent in operation.answers.items():
        responses[str(status)] = {"description": "Done." if status == 204 else "The answer."}
        if sent is not None:
            responses[str(status)]["content"] = _content(sent)
    if _conditions(operation):
        responses["304"] = {"description": "The answer is the one that was named."}
    always = (400, 401, 403, 404, 429, 503) if operation.path.startswith("/api/") else (401, 429, 503)
    for status in sorted({*always, *operation.problems}):
        responses[str(status)] = {"description": _MEANING[status], "content": _content(named("Problem"))}
    return responses


def _content(sent: Schema | str) -> dict[str, Any]:
    if isinstance(sent, Mapping):
        return {"application/json": {"schema": dict(sent)}}
    schema: dict[str, Any] = {"type": "string"}
    return {sent: {"schema": schema | ({"format": "binary"} if sent == "application/octet-stream" else {})}}
