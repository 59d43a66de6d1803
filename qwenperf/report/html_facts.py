"""An environment, a commit or any other free data of a record as rows of a name and a text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf import units
from qwenperf.gate.differences import STABLE

_MOST = 300
_HEAD = ("device_kind", "cpu_model", "cores", "jax", "jaxlib", "python", "platform")
"""What is told first of a machine."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One row of an environment."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Both:
    """One row of the environments of two sides. ``matters``: times do not compare where it differs."""

    name: str
    base: str
    head: str
    differs: bool
    matters: bool


def facts(data: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return free data as rows, what people ask for first; objects inside are told by ``outer.inner``."""
    found = dict(_flat(data))
    first = [name for name in _HEAD if name in found]
    return tuple(Fact(name=name, text=found[name]) for name in dict.fromkeys((*first, *found)))


def both(base: Mapping[str, Any], head: Mapping[str, Any]) -> tuple[Both, ...]:
    """Return two environments side by side, those fields first in which they differ."""
    old, new = dict(_flat(base)), dict(_flat(head))
    rows = [
        Both(
            name=name,
            base=old.get(name, "-"),
            head=new.get(name, "-"),
            differs=old.get(name) != new.get(name),
            matters=name.split(".")[0] in STABLE,
        )
        for name in dict.fromkeys((*_HEAD, *old, *new))
        if name in old or name in new
    ]
    return tuple(sorted(rows, key=lambda row: not (row.differs and row.matters)))


def _flat(data: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        name = f"{outer}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield name, text(str(key), value)


def text(name: str, value: Any) -> str:
    """Write one value for people."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return units.byte_count(value) if name.endswith("_bytes") else f"{value:.6g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return shortened(", ".join(text(name, one) for one in value))
    return shortened(str(value))


def shortened(words: str, most: int = _MOST) -> str:
    """Cut what is too long for a line of a page."""
    return words if len(words) <= most else f"{words[:most]}..."
