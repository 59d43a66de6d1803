"""Cases that were renamed: old names to present ones, so that a history goes on. Pure.

Written as ``[tool.qwenperf.aliases]`` in ``pyproject.toml``, or as ``[aliases]`` in the store's own ``store.toml``:
``"old name" = "new name"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qwenperf.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Aliases:
    """The present name of each old one."""

    present: Mapping[str, str] = field(default_factory=dict)

    def name(self, case: str) -> str:
        """Return the present name of a case."""
        return self.present.get(case, case)

    def names(self, case: str) -> tuple[str, ...]:
        """Return all names that a case has had, the present one first."""
        present = self.name(case)
        return (present, *(old for old, new in self.present.items() if new == present))


def read_aliases(*tables: tuple[Any, str]) -> Aliases:
    """Return the aliases of several tables, each with its origin for messages.

    Raises:
      ConfigError: a table that is none, a name that is no text, two new names for one old, or a circle.
    """
    direct: dict[str, tuple[str, str]] = {}
    for table, origin in tables:
        for old, new in _pairs(table, origin):
            known = direct.get(old)
            if known is not None and known[0] != new:
                advice = "A case has one present name."
                message = f"{origin} says that {old!r} is now {new!r}, and {known[1]} that it is {known[0]!r}."
                raise ConfigError(message, advice=advice)
            direct.setdefault(old, (new, origin))
    return Aliases(present={old: _follow(old, direct) for old in direct})


def _pairs(table: Any, origin: str) -> Iterable[tuple[str, str]]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{origin} is not a table.", advice='Write "old name" = "new name".')
    for old, new in table.items():
        if not isinstance(new, str) or not new or not old:
            raise ConfigError(f"{origin} {old!r} is {new!r}, which is no name of a case.")
        yield str(old), new


def _follow(old: str, direct: Mapping[str, tuple[str, str]]) -> str:
    """Return where a chain of names ends."""
    way = [old]
    while way[-1] in direct:
        new, origin = direct[way[-1]]
        if new in way:
            raise ConfigError(f"{origin} leads in a circle: {' -> '.join(map(repr, (*way, new)))}.")
        way.append(new)
    return way[-1]
