"""Reads documents whose schema has no older versions: a bisection, an upgrade, the regressions of a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

from qwenperf.errors import RecordError
from qwenperf.schema.hints import show
from qwenperf.schema.reading import decode

Record = TypeVar("Record")


def read_document(text: str, source: str, kind: type[Record], schema: str, *, advice: str = "") -> Record:
    """Return the record in JSON text. ``source`` is the file that messages name, ``advice`` what all of them say to do.

    Raises:
      RecordError: it is none of ``schema``, or cut short; names the key path and what was seen.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source} is not JSON: {error}.", advice=advice or "Was it cut short?") from error
    seen = data.get("schema") if isinstance(data, Mapping) else None
    if seen != schema:
        message = f"{source}: schema is {show(seen)}; this version reads {schema!r}."
        raise RecordError(message, advice=advice or "Read it with the qwenperf that wrote it.")
    try:
        record: Record = decode(data, kind, "")
    except RecordError as error:
        raise RecordError(f"{source}: {error.message}", advice=advice or error.advice) from None
    except RecursionError:
        raise RecordError(f"{source} is nested too deeply.", advice=advice) from None
    return record
