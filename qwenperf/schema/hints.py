"""What the type hints of a record say about its JSON: keys, what is required, what may be null.

Reading, writing and the published schema all ask here, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

Data: TypeAlias = Any
"""A value whose type is only known from a hint at run time."""
Hint: TypeAlias = Any
"""A type hint; these have no common type."""


@cache
def known_fields(kind: type) -> dict[str, tuple[Any, Field[Any]]]:
    """Return type hint and dataclass field by JSON key; ``extra`` is not a key of its own."""
    hints = get_type_hints(kind)
    return {item.name: (hints[item.name], item) for item in fields(kind) if item.name != "extra"}


def is_required(item: Field[Any]) -> bool:
    """Say whether the key must be there: it has no default, or is the version of the schema."""
    return item.name == "schema" or (item.default is MISSING and item.default_factory is MISSING)


@cache
def optional_of(hint: Hint) -> Hint:
    """Return ``X`` for ``X | None``, otherwise ``None``."""
    options = get_args(hint)
    return next((option for option in options if option is not type(None)), None) if type(None) in options else None


@cache
def origin_of(hint: Hint) -> object:
    """Return ``tuple`` or ``Mapping`` for a hint of that kind."""
    return get_origin(hint)


def join(path: str, key: str) -> str:
    """Return the key path of ``key`` inside ``path``."""
    return f"{path}.{key}" if path else key


def show(data: object) -> str:
    """Write a value that was seen, cut to the length of a message."""
    text = "missing" if data is None else repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."
