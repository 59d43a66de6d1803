"""How deep JSON data nests. Whatever reads a record calls itself once a level, and no page can where the stack ends."""

from __future__ import annotations

from typing import Any

from qwenperf.errors import RecordError
from qwenperf.formats.place import DEEPEST

_INSIDE = (dict, list)


def check_depth(data: Any, source: str) -> None:
    """Refuse objects and arrays in one another beyond what every reader of records takes.

    Raises:
      RecordError: they nest deeper.
    """
    level = [data] if type(data) in _INSIDE else []
    for _ in range(DEEPEST):
        if not level:
            return
        level = [
            part
            for whole in level
            for part in (whole.values() if type(whole) is dict else whole)
            if type(part) in _INSIDE
        ]
    if level:
        raise RecordError(f"{source} is nested deeper than {DEEPEST} levels.", advice="No record needs ten.")
