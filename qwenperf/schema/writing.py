"""Records to JSON data: what JSON cannot hold is left out and named. ``codec`` is the way in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from numbers import Integral
from typing import Any, get_args

from qwenperf.errors import RecordError
from qwenperf.schema.hints import Data, Hint, is_required, join, known_fields, optional_of, origin_of, show
from qwenperf.schema.reading import decode_scalar, number
from qwenperf.schema.records import Finding, Severity


def encode(value: Data, hint: Hint, path: str, lost: list[str]) -> Data:
    """Return ``value`` as JSON data; messages about what had to be left out are added to ``lost``.

    Raises:
      RecordError: nothing around the value that cannot be written may be missing.
    """
    inner = optional_of(hint)
    if inner is not None:
        return None if value is None else encode(value, inner, path, lost)
    if hint is Any:
        return _encode_free(value, path, lost)
    if is_dataclass(hint):
        return _encode_object(value, hint, path, lost)
    if origin_of(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise RecordError(f"{path} is {show(value)}, which is not an array.")
        option = get_args(hint)[0]
        return [encode(part, option, f"{path}[{i}]", lost) for i, part in enumerate(value)]
    if origin_of(hint) is Mapping:
        return _encode_mapping(value, get_args(hint)[1], path, lost)
    return decode_scalar(value, hint, path)


def _encode_object(value: Data, kind: Hint, path: str, lost: list[str]) -> dict[str, Any]:
    if not isinstance(value, kind):
        raise RecordError(f"{path} is {show(value)}, which is no {kind.__name__}.")
    known = known_fields(kind)
    remarks: list[str] = [] if "findings" in known else lost
    written = {}
    for name, (hint, item) in known.items():
        try:
            written[name] = encode(getattr(value, name), hint, join(path, name), remarks)
        except RecordError as error:
            if is_required(item):
                raise
            remarks.append(error.message)
    extra = {key: part for key, part in value.extra.items() if key not in known}
    written |= _encode_mapping(extra, Any, path, remarks)
    if remarks and remarks is not lost:
        written.setdefault("findings", []).append(_unwritable(remarks))
    return written


def _encode_mapping(value: Data, hint: Hint, path: str, lost: list[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RecordError(f"{path} is {show(value)}, which is not an object.")
    written = {}
    for key, part in value.items():
        try:
            written[str(key)] = encode(part, hint, join(path, str(key)), lost)
        except RecordError as error:
            lost.append(error.message)
    return written


def _encode_free(value: Data, path: str, lost: list[str]) -> Data:
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Mapping):
        return _encode_mapping(value, Any, path, lost)
    if isinstance(value, list | tuple):
        return [_encode_free(part, f"{path}[{i}]", lost) for i, part in enumerate(value)]
    try:
        return int(value) if isinstance(value, Integral) else number(value, path)
    except RecordError as error:
        lost.append(error.message)
        return None


def _unwritable(remarks: list[str]) -> dict[str, Any]:
    finding = Finding(
        code="unwritable",
        severity=Severity.ERROR,
        message=f"left out of the record: {remarks[0]}" + (f" (and {len(remarks) - 1} more)" if remarks[1:] else ""),
        advice="A number that is not finite is a fault of the measurement, not a result.",
        data={"keys": remarks},
    )
    return _encode_object(finding, Finding, "", [])
