"""JSON data to records: strict, by type hints. ``codec`` is the way in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from numbers import Integral, Real
from typing import Any, get_args

from qwenperf.errors import RecordError, nearest_advice
from qwenperf.schema.hints import Data, Hint, is_required, join, known_fields, optional_of, origin_of, show

_NUMBERS = (float, Ellipsis)


def decode(data: Data, hint: Hint, path: str) -> Data:
    """Return ``data`` as the type ``hint`` says; ``path`` is where it lies in the file.

    Raises:
      RecordError: it is of another type; names the key path and what was seen.
    """
    reader, part = _reader(hint)
    return reader(data, part, path)


@cache
def _reader(hint: Hint) -> tuple[Callable[[Data, Hint, str], Data], Hint]:
    """Return what reads values of ``hint``, and the part of it that it needs: found once, as values are many."""
    inner = optional_of(hint)
    if inner is not None:
        return _decode_optional, inner
    if hint is Any:
        return _decode_free, hint
    if is_dataclass(hint):
        return _decode_object, hint
    if origin_of(hint) is tuple:
        return _decode_tuple, get_args(hint)
    if origin_of(hint) is Mapping:
        return _decode_mapping, get_args(hint)[1]
    return decode_scalar, hint


def _decode_optional(data: Data, inner: Hint, path: str) -> Data:
    return None if data is None else decode(data, inner, path)


def _decode_free(data: Data, _hint: Hint, path: str) -> Data:
    return _free(data, path)


def _decode_mapping(data: Data, hint: Hint, path: str) -> Data:
    entries = _expect(data, dict, "an object", path).items()
    return {key: decode(value, hint, join(path, key)) for key, value in entries}


def _decode_object(data: Data, kind: Hint, path: str) -> Data:
    entries = _expect(data, dict, "an object", path)
    known = known_fields(kind)
    for name, (_, item) in known.items():
        if name not in entries and is_required(item):
            raise RecordError(f"{join(path, name)} is missing.", advice=f"Found: {', '.join(entries) or 'no key'}.")
    values = {key: decode(value, known[key][0], join(path, key)) for key, value in entries.items() if key in known}
    extra = {key: _free(value, join(path, key)) for key, value in entries.items() if key not in known}
    return kind(**values, extra=extra)


def _decode_tuple(data: Data, options: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    values = _expect(data, list, "an array", path)
    if options == _NUMBERS and all(type(value) is float and math.isfinite(value) for value in values):
        return tuple(values)
    if options[-1] is Ellipsis:
        options = (options[0],) * len(values)
    elif len(values) != len(options):
        raise RecordError(f"{path} has {len(values)} entries and needs {len(options)}.")
    return tuple(
        decode(value, option, f"{path}[{i}]") for i, (value, option) in enumerate(zip(values, options, strict=True))
    )


def decode_scalar(data: Data, hint: Hint, path: str) -> Data:
    """Return text, a number, a truth value or an enum's member; errors as ``decode``."""
    if type(data) is hint and (hint is str or (hint is float and math.isfinite(data))):
        return data
    if issubclass(hint, StrEnum):
        choices = [str(choice) for choice in hint]
        if data not in choices:
            raise RecordError(
                f"{path} is {show(data)}, which is no {hint.__name__.lower()}.",
                advice=nearest_advice(str(data), choices),
            )
        return hint(data)
    if hint is float:
        return number(data, path)
    if hint is int:
        value = int(data) if isinstance(data, Integral) else number(data, path)
        if isinstance(data, bool) or value != int(value):
            raise RecordError(f"{path} is {show(data)}, which is not a whole number.")
        return int(value)
    return _expect(data, hint, {str: "text", bool: "true or false"}[hint], path)


def number(data: Data, path: str) -> float:
    """Return a finite float for any real number, numpy's included."""
    if isinstance(data, bool) or not isinstance(data, Real):
        raise RecordError(f"{path} is {show(data)}, which is not a number.")
    try:
        value = float(data)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise RecordError(f"{path} is {show(data)}; records hold finite numbers only.")
    return value


def _free(data: Data, path: str) -> Data:
    """Return free data as it came, checked to hold finite numbers only."""
    if isinstance(data, dict):
        return {key: _free(value, join(path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_free(value, f"{path}[{i}]") for i, value in enumerate(data)]
    if isinstance(data, float):
        return number(data, path)
    return data


def _expect(data: Data, kind: Hint, noun: str, path: str) -> Data:
    if not isinstance(data, kind):
        raise RecordError(f"{path or 'the record'} is {show(data)}, which is not {noun}.")
    return data
