"""Records to JSON and back, driven by the type hints of ``records``: a new field needs no code here.

Reading is strict: a missing required key, a wrong type, an unknown enum value, a number that is not finite or
another schema version is a ``RecordError`` that names the file, the key path and what was seen. Keys that a
record does not know go to its ``extra`` and are written back beside the others.

Writing never loses the rest of a result: a value that JSON cannot hold (NaN, infinity, an object that is
no data) is left out together with the smallest part around it that may be missing, such as one metric, and a
finding ``unwritable`` of the case or run names it. In free data (``spec``, ``data``, ``extra``) it becomes ``null``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from qwenperf.errors import RecordError
from qwenperf.schema.analysis import AOT_SCHEMA, AotCase, AotRecord
from qwenperf.schema.checking import check_aot, check_comparison, check_run
from qwenperf.schema.comparison import COMPARISON_SCHEMA, ComparisonRecord
from qwenperf.schema.older import to_current
from qwenperf.schema.reading import decode
from qwenperf.schema.records import SCHEMA, CaseRecord, RunRecord
from qwenperf.schema.series import Series
from qwenperf.schema.writing import encode

Record = TypeVar("Record")

_ARRAY_OF_NUMBERS = re.compile(r"\[\s*\n\s*(-?[0-9][0-9.eE+-]*(?:,\s+-?[0-9][0-9.eE+-]*)*)\s*\n\s*\]")


def to_json(record: RunRecord | CaseRecord | ComparisonRecord | AotRecord | AotCase) -> dict[str, Any]:
    """Return ``record`` as plain JSON data.

    Raises:
      RecordError: a required key of the record itself (such as ``id``) cannot be written.
    """
    written: dict[str, Any] = encode(record, type(record), "", [])
    return written


def dumps(record: RunRecord | CaseRecord | ComparisonRecord | AotRecord | AotCase) -> str:
    """Return ``record`` as JSON text: indented, arrays of numbers on one line, a newline at the end."""
    text = json.dumps(to_json(record), indent=1, allow_nan=False)
    # A string cannot hold a raw line break, so only real arrays match.
    return _ARRAY_OF_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def series_to_json(series: Series) -> dict[str, Any]:
    """Return a series as plain JSON data: keys of ``extra`` stand beside the others."""
    written: dict[str, Any] = encode(series, Series, "", [])
    return written


def series_from_json(data: object, source: str = "") -> Series:
    """Read a series from plain JSON data; errors as ``from_json``."""
    return _read(data, Series, f"{source}: " if source else "")


def from_json(data: object, source: str = "") -> RunRecord:
    """Read a run from plain JSON data. ``source`` is the file that messages name.

    Raises:
      RecordError: not a run of this schema; names the key path and what was seen.
    """
    return _whole(data, RunRecord, SCHEMA, check_run, source)


def case_from_json(data: object, source: str = "") -> CaseRecord:
    """Read one case from plain JSON data; errors as ``from_json``."""
    return _read(data, CaseRecord, f"{source}: " if source else "")


def comparison_from_json(data: object, source: str = "") -> ComparisonRecord:
    """Read a comparison from plain JSON data; errors as ``from_json``."""
    return _whole(data, ComparisonRecord, COMPARISON_SCHEMA, check_comparison, source)


def comparison_loads(text: str, source: str = "") -> ComparisonRecord:
    """Read a comparison from JSON text; errors as ``from_json``, also for text that is no JSON."""
    return comparison_from_json(_parse(text, source), source)


def aot_from_json(data: object, source: str = "") -> AotRecord:
    """Read a record of compiled programs from plain JSON data; errors as ``from_json``."""
    return _whole(data, AotRecord, AOT_SCHEMA, check_aot, source)


def aot_loads(text: str, source: str = "") -> AotRecord:
    """Read a record of compiled programs from JSON text; errors as ``from_json``, also for text that is no JSON."""
    return aot_from_json(_parse(text, source), source)


def aot_case_from_json(data: object, source: str = "") -> AotCase:
    """Read one program compiled for one target from plain JSON data; errors as ``from_json``."""
    return _read(data, AotCase, f"{source}: " if source else "")


def _whole(data: object, kind: type[Record], schema: str, check: Callable[[Record], None], source: str) -> Record:
    """Read a record of ``schema``, or of an older one, and check it; messages name ``source``."""
    prefix = f"{source}: " if source else ""
    try:
        record = _read(to_current(data, schema), kind, "")
        check(record)
    except RecordError as error:
        raise RecordError(prefix + error.message, advice=error.advice) from None
    return record


def loads(text: str, source: str = "") -> RunRecord:
    """Read a run from JSON text; errors as ``from_json``, also for text that is no JSON."""
    return from_json(_parse(text, source), source)


def case_loads(text: str, source: str = "") -> CaseRecord:
    """Read one case from JSON text; errors as ``from_json``, also for text that is no JSON."""
    return case_from_json(_parse(text, source), source)


def _parse(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source or 'record'} is not JSON: {error}.", advice="Was it cut short?") from error


def _read(data: object, kind: type[Record], prefix: str) -> Record:
    try:
        record: Record = decode(data, kind, "")
    except RecordError as error:
        raise RecordError(prefix + error.message, advice=error.advice) from None
    except RecursionError:
        raise RecordError(f"{prefix}the record is nested too deeply.") from None
    return record
