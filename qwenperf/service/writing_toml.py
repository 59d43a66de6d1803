"""TOML text of a table that was read from TOML or JSON, for people who change it: a line for each key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def lines(table: Mapping[str, Any]) -> str:
    """Return a table without its head: ``compiles_steady = { max = 0 }``."""
    return "\n".join(f"{_key(name)} = {_value(value)}" for name, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # What JSON leaves as it is, TOML wants escaped: DEL and others that nobody sees.
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in json.dumps(text, ensure_ascii=False))
