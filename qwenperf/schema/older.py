"""Records of older versions, made into the present one step at a time when they are read. Files are never rewritten.

A change of a record that readers of today would misread gets a new version (``qwenperf.run.v2``) and a step here from
the one before, on plain JSON data. What is only added needs neither: it has a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.schema.hints import show

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Mapping[str, tuple[str, Step]] = {}
"""From each older version the next one, and how its data become that one's. There is no older version yet."""

_VERSION = re.compile(r"(.+)\.v(\d+)")


def to_current(data: object, known: str, steps: Mapping[str, tuple[str, Step]] = STEPS) -> object:
    """Return ``data`` as the version ``known``.

    Raises:
      RecordError: it is of another kind, of a version that is newer, or of an older one to which no step leads.
    """
    while isinstance(data, Mapping) and data.get("schema") != known:
        step = steps.get(str(data.get("schema")))
        if step is None:
            break
        later, make = step
        data = {**make(dict(data)), "schema": later}
    seen = data.get("schema") if isinstance(data, Mapping) else None
    if seen != known:
        message = f"schema is {show(seen)}; this version reads {known!r}."
        raise RecordError(message, advice=_advice(seen, known))
    return data


def _advice(seen: object, known: str) -> str:
    there, here = (_VERSION.fullmatch(text) for text in (str(seen), known))
    if there and here and there[1] == here[1] and int(there[2]) > int(here[2]):
        return "A newer qwenperf wrote it: read it with that one."
    return "Read it with the qwenperf that wrote it, or measure again."
