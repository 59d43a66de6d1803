"""JSON data to records: strict, by type hints. ``codec`` is the way in.

What reads a type is made once. Where a value lies is put together only when it is wrong, on the way out: records have
thousands of values, and a service reads a hundred records a second.
"""

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

Reader = Callable[[Data], Data]


class _MisreadError(Exception):
    """A value is wrong. ``steps``: the keys and indices to it, the innermost first; ``reason`` follows their path."""

    def __init__(self, reason: str, advice: str = "", step: str | int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.advice = reason, advice
        self.steps: list[str | int] = [] if step is None else [step]

    def inside(self, step: str | int) -> _MisreadError:
        """Return this error as one of what lies further out."""
        self.steps.append(step)
        return self

    def told(self, path: str) -> RecordError:
        """Return the error for people; the outermost value lies at ``path``."""
        for step in reversed(self.steps):
            path = join(path, step) if isinstance(step, str) else f"{path}[{step}]"
        return RecordError(f"{path or 'the record'} {self.reason}", advice=self.advice)


def decode(data: Data, hint: Hint, path: str) -> Data:
    """Return ``data`` as the type ``hint`` says; ``path`` is where it lies in the file.

    Raises:
      RecordError: it is of another type; names the key path and what was seen.
    """
    return _told(_reader(hint), data, path)


def decode_scalar(data: Data, hint: Hint, path: str) -> Data:
    """Return text, a number, a truth value or an enum's member; errors as ``decode``."""
    return _told(_scalar(hint), data, path)


def number(data: Data, path: str) -> float:
    """Return a finite float for any real number, numpy's included; errors as ``decode``."""
    value: float = _told(_number, data, path)
    return value


def _told(read: Reader, data: Data, path: str) -> Data:
    try:
        return read(data)
    except _MisreadError as error:
        raise error.told(path) from None


@cache
def _reader(hint: Hint) -> Reader:
    inner = optional_of(hint)
    if inner is not None:
        read = _reader(inner)
        return lambda data: None if data is None else read(data)
    if hint is Any:
        return _free
    if is_dataclass(hint):
        return _object(hint)
    if origin_of(hint) is tuple:
        return _tuple(get_args(hint))
    if origin_of(hint) is Mapping:
        return _mapping(get_args(hint)[1])
    return _scalar(hint)


def _mapping(hint: Hint) -> Reader:
    read = _reader(hint)

    def read_mapping(data: Data) -> Data:
        return _entries(_expect(data, dict, "an object"), read)

    return read_mapping


def _entries(data: dict[str, Data], read: Reader) -> dict[str, Data]:
    values, key = {}, ""
    try:
        for key, value in data.items():
            values[key] = read(value)
    except _MisreadError as error:
        raise error.inside(key) from None
    return values


def _object(kind: Any) -> Reader:
    required = [name for name, (_, item) in known_fields(kind).items() if is_required(item)]

    def read_object(data: Data) -> Data:
        entries = _expect(data, dict, "an object")
        for name in required:
            if name not in entries:
                raise _MisreadError("is missing.", f"Found: {', '.join(entries) or 'no key'}.", name)
        readers, values, extra, key = _readers(kind), {}, {}, ""
        try:
            for key, value in entries.items():
                read = readers.get(key)
                if read is None:
                    extra[key] = _free(value)
                else:
                    values[key] = read(value)
        except _MisreadError as error:
            raise error.inside(key) from None
        return kind(**values, extra=extra)

    return read_object


@cache
def _readers(kind: type) -> dict[str, Reader]:
    """Return what reads each key of a record; asked for when one is read, as records may hold their own kind."""
    return {name: _reader(hint) for name, (hint, _) in known_fields(kind).items()}


def _tuple(options: tuple[Any, ...]) -> Reader:
    repeats, are_numbers = options[-1] is Ellipsis, options == (float, Ellipsis)
    readers = [_reader(option) for option in options if option is not Ellipsis]

    def read_tuple(data: Data) -> tuple[Any, ...]:
        values = _expect(data, list, "an array")
        if are_numbers and all(type(value) is float and math.isfinite(value) for value in values):
            return tuple(values)
        if not repeats and len(values) != len(readers):
            raise _MisreadError(f"has {len(values)} entries and needs {len(readers)}.")
        each = readers * len(values) if repeats else readers
        return tuple(_each(values, each))

    return read_tuple


def _each(values: list[Data], readers: list[Reader]) -> list[Data]:
    found: list[Data] = []
    try:
        for value, read in zip(values, readers, strict=True):
            found.append(read(value))
    except _MisreadError as error:
        raise error.inside(len(found)) from None
    return found


def _scalar(hint: Hint) -> Reader:
    if issubclass(hint, StrEnum):
        return _enum(hint)
    if hint is float:
        return _number
    if hint is int:
        return _whole
    return _text if hint is str else _truth


@cache
def _enum(kind: type[StrEnum]) -> Reader:
    members = {str(member): member for member in kind}

    def read_member(data: Data) -> StrEnum:
        found = members.get(data) if isinstance(data, str) else None
        if found is None:
            advice = nearest_advice(str(data), list(members))
            raise _MisreadError(f"is {show(data)}, which is no {kind.__name__.lower()}.", advice)
        return found

    return read_member


def _text(data: Data) -> Data:
    return data if type(data) is str else _expect(data, str, "text")


def _truth(data: Data) -> Data:
    return _expect(data, bool, "true or false")


def _whole(data: Data) -> int:
    value = int(data) if isinstance(data, Integral) else _number(data)
    if isinstance(data, bool) or value != int(value):
        raise _MisreadError(f"is {show(data)}, which is not a whole number.")
    return int(value)


def _number(data: Data) -> float:
    if type(data) is float and math.isfinite(data):
        return data
    if isinstance(data, bool) or not isinstance(data, Real):
        raise _MisreadError(f"is {show(data)}, which is not a number.")
    try:
        value = float(data)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise _MisreadError(f"is {show(data)}; records hold finite numbers only.")
    return value


def _free(data: Data) -> Data:
    """Return free data as it came, checked to hold finite numbers only."""
    if isinstance(data, dict):
        return _entries(data, _free)
    if isinstance(data, list):
        return _each(data, [_free] * len(data))
    return _number(data) if isinstance(data, float) else data


def _expect(data: Data, kind: Hint, noun: str) -> Data:
    if not isinstance(data, kind):
        raise _MisreadError(f"is {show(data)}, which is not {noun}.")
    return data
