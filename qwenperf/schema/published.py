"""The JSON Schemas of all records, made from their types: the files cannot drift.

``run.v1.json`` and its like beside this module are its output; they are written by ``tools/generate_docs.py``.
Unknown keys are allowed everywhere: readers keep them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any, get_args

from qwenperf.schema.analysis import AOT_SCHEMA, AotRecord
from qwenperf.schema.bisection import BISECTION_SCHEMA, BisectionRecord
from qwenperf.schema.comparison import COMPARISON_SCHEMA, ComparisonRecord
from qwenperf.schema.hints import Hint, is_required, known_fields, optional_of, origin_of
from qwenperf.schema.records import SCHEMA, RunRecord
from qwenperf.schema.regressions import REGRESSIONS_SCHEMA, RegressionsRecord
from qwenperf.schema.upgrade import UPGRADE_SCHEMA, UpgradeRecord

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number"}


def run_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``run.json``."""
    return _published(RunRecord, SCHEMA)


def comparison_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``comparison.json``."""
    return _published(ComparisonRecord, COMPARISON_SCHEMA)


def aot_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``aot.json``."""
    return _published(AotRecord, AOT_SCHEMA)


def bisection_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``bisect.json``."""
    return _published(BisectionRecord, BISECTION_SCHEMA)


def upgrade_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``upgrade.json``."""
    return _published(UpgradeRecord, UPGRADE_SCHEMA)


def regressions_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``regressions.json``."""
    return _published(RegressionsRecord, REGRESSIONS_SCHEMA)


def _published(kind: Hint, name: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    top = _object(kind, definitions)
    top["properties"]["schema"] = {"const": name}
    return {"$schema": DIALECT, "$id": f"urn:{name.replace('.', ':')}", "title": name, **top, "$defs": definitions}


def _object(kind: Hint, definitions: dict[str, Any]) -> dict[str, Any]:
    known = known_fields(kind)
    return {
        "type": "object",
        "description": inspect.getdoc(kind) or "",
        "required": [name for name, (_, item) in known.items() if is_required(item)],
        "properties": {name: _schema(hint, definitions) for name, (hint, _) in known.items()},
    }


def _schema(hint: Hint, definitions: dict[str, Any]) -> dict[str, Any]:
    inner = optional_of(hint)
    if inner is not None:
        return {"anyOf": [_schema(inner, definitions), {"type": "null"}]}
    if hint is Any:
        return {}
    if origin_of(hint) is tuple:
        return _array(get_args(hint), definitions)
    if origin_of(hint) is Mapping:
        return {"type": "object", "additionalProperties": _schema(get_args(hint)[1], definitions)}
    return _named(hint, definitions) if hint not in _SCALARS else {"type": _SCALARS[hint]}


def _named(hint: Hint, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to a record or an enum, defined once."""
    name = str(hint.__name__)
    if name not in definitions:
        definitions[name] = {}
        if is_dataclass(hint):
            definitions[name] = _object(hint, definitions)
        elif issubclass(hint, StrEnum):
            definitions[name] = {"enum": [str(member) for member in hint], "description": inspect.getdoc(hint)}
    return {"$ref": f"#/$defs/{name}"}


def _array(options: tuple[Hint, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if options[-1] is Ellipsis:
        return {"type": "array", "items": _schema(options[0], definitions)}
    return {
        "type": "array",
        "prefixItems": [_schema(option, definitions) for option in options],
        "minItems": len(options),
        "maxItems": len(options),
    }
