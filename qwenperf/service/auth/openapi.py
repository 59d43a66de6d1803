"""What this room adds to the published description of the API."""

from __future__ import annotations

from typing import Any

from qwenperf.service.auth.manage import DEFAULT_DAYS, MOST_DAYS
from qwenperf.service.auth.oidc import DEFAULT_REFS
from qwenperf.service.auth.tokens import Scope

_LINE: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_TIME = {"type": ["string", "null"], "format": "date-time"}
_SCOPE = {"type": "string", "enum": [str(one) for one in Scope]}
_PATTERNS = {"type": "array", "items": _LINE, "maxItems": 50}
_PROJECT = {"name": "project", "in": "path", "required": True, "schema": {"type": "string"}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_ERROR = _json(_object(["error", "advice"], error={"type": "string"}, advice={"type": "string"}))
_TOKEN = _object(
    ["prefix", "name", "scope"],
    prefix={"type": "string"},
    name={"type": "string"},
    kind={"type": "string"},
    scope=_SCOPE,
    project={"type": ["string", "null"]},
    created_by={"type": "string"},
    created_at=_TIME,
    expires_at=_TIME,
    revoked_at=_TIME,
    last_used_at=_TIME,
)
_NEW_TOKEN = _object(
    ["token", "prefix", "expires_at", "scope"],
    token={"type": "string", "description": "Shown this once."},
    prefix={"type": "string"},
    name={"type": "string"},
    scope=_SCOPE,
    expires_at=_TIME,
    project={"type": ["string", "null"]},
)
_POLICY = _object(
    ["repository", "repository_id", "refs"],
    id={"type": "integer"},
    repository=_LINE,
    repository_id={"type": "string"},
    refs=_PATTERNS,
    events=_PATTERNS,
    workflows=_PATTERNS,
)
_CHANGE = _object(
    ["id", "at", "actor", "action", "subject"],
    id={"type": "integer"},
    at=_TIME,
    actor={"type": "string"},
    kind={"type": "string"},
    action={"type": "string"},
    subject={"type": "string"},
    detail={"type": "object"},
    address={"type": "string"},
    project={"type": ["string", "null"]},
)


def _answers(status: int, told: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    good: dict[str, Any] = {"description": told}
    if schema is not None:
        good["content"] = _json(schema)
    refused = {
        401: "Who asks is not known.", 403: "They may not.", 404: "It is not here, or not for them.",
        409: "It contradicts what is here.", 413: "Too much.", 422: "The request makes no sense.", 429: "Too often.",
        503: "Not now; see Retry-After.",
    }  # fmt: skip
    return {str(status): good} | {str(code): {"description": why, "content": _ERROR} for code, why in refused.items()}


def _operation(
    name: str, summary: str, answers: dict[str, Any], *, body: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": name, "summary": summary, "tags": ["access"], "responses": answers, **rest}
    if body is not None:
        found["requestBody"] = {"required": True, "content": _json({**body, "additionalProperties": False})}
    return found


def _listing(name: str, summary: str, key: str, schema: dict[str, Any], **rest: Any) -> dict[str, Any]:
    listed = _object([key], **{key: {"type": "array", "items": schema}})
    return _operation(name, summary, _answers(200, "The list.", listed), **rest)


def _query(name: str, told: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": told, "schema": {"type": "integer", "minimum": 0}}


def _tokens(of: str, where: str) -> dict[str, Any]:
    days = {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_DAYS, "default": DEFAULT_DAYS}
    body = _object(["name", "scope"], name=_LINE, scope=_SCOPE, expires_in_days=days)
    return {
        "get": _listing(f"list{of}Tokens", f"List tokens of {where}.", "tokens", _TOKEN),
        "post": _operation(
            f"create{of}Token", f"Make a token of {where}.", _answers(201, "The token.", _NEW_TOKEN), body=body
        ),
    }


def _revoke(of: str, where: str) -> dict[str, Any]:
    prefix = {"name": "prefix", "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [prefix]
    return {
        "parameters": parameters,
        "delete": _operation(f"revoke{of}Token", f"Revoke a token of {where}.", _answers(204, "It is good no more.")),
    }


def _audit(of: str, where: str) -> dict[str, Any]:
    parameters = [_query("limit", "How many at most."), _query("before", "Only those before this id.")]
    return {"get": _listing(f"list{of}Audit", f"List changes in {where}.", "audit", _CHANGE, parameters=parameters)}


def _of_project(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "parameters": [_PROJECT, *item.get("parameters", [])]}


def _policies() -> dict[str, Any]:
    body = _object(
        ["repository", "repository_id"],
        repository=_LINE,
        repository_id={"type": "string", "pattern": "^[0-9]{1,20}$"},
        refs={**_PATTERNS, "default": list(DEFAULT_REFS)},
        events=_PATTERNS,
        workflows=_PATTERNS,
    )
    return {
        "get": _listing("listPolicies", "List which CI jobs may push.", "policies", _POLICY),
        "post": _operation("allowJobs", "Let CI jobs push.", _answers(201, "The policy.", _POLICY), body=body),
    }


def _remove_policy() -> dict[str, Any]:
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
    gone = _operation("removePolicy", "Stop CI jobs from pushing.", _answers(204, "They may no more."))
    return {"parameters": [number], "delete": gone}


_WHOAMI = _object(
    ["name", "kind", "project", "scopes"],
    name={"type": "string"},
    kind={"type": "string"},
    project={"type": ["string", "null"]},
    scopes={"type": "array", "items": _SCOPE},
)
_EXCHANGE = _object(["project", "token"], project=_LINE, token={"type": "string", "minLength": 1, "maxLength": 16_384})
_P = "/api/v1/projects/{project}"

PATHS: dict[str, Any] = {
    "/api/v1/whoami": {"get": _operation("whoami", "Say who asks.", _answers(200, "Who asks.", _WHOAMI))},
    "/api/v1/oidc/exchange": {
        "post": _operation(
            "exchangeIdentity",
            "Give a CI job a short push token for its identity token.",
            _answers(201, "The push token.", _NEW_TOKEN),
            body=_EXCHANGE,
        )
    },
    "/api/v1/tokens": _tokens("", "the service"),
    "/api/v1/tokens/{prefix}": _revoke("", "the service"),
    "/api/v1/audit": _audit("", "the service"),
    f"{_P}/tokens": _of_project(_tokens("Project", "a project")),
    f"{_P}/tokens/{{prefix}}": _of_project(_revoke("Project", "a project")),
    f"{_P}/oidc": _of_project(_policies()),
    f"{_P}/oidc/{{number}}": _of_project(_remove_policy()),
    f"{_P}/audit": _of_project(_audit("Project", "a project")),
}
