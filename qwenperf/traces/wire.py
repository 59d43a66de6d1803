"""Decodes the wire format of protocol buffers: field numbers and raw values, nothing of what they mean.

Works on anything that is indexed and sliced as bytes are, a memory map included, so that a file larger than the memory
can be walked. Whatever is cut or is no message raises ``WireError``.
Format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import Any

Buffer = bytes | mmap

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 70
"""Bits: a varint has 10 bytes at most."""


class WireError(ValueError):
    """Bytes that are no message; says at which byte."""


def varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return the number that starts at ``at``, and where the next field starts."""
    value = shift = 0
    start = at
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift >= _LONGEST_VARINT:
                raise WireError(f"a number without end at byte {start}")
    except IndexError:
        raise WireError(f"it ends within a number at byte {start}") from None


def spans(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(field, value, end)`` of a message between two bytes.

    A field with a length gives where its bytes start and end, any other its value and -1; nothing is copied.
    """
    at = start
    while at < end:
        tag, at = varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield field, value, -1
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == LENGTH:
            size, at = varint(data, at)
        if size is None or field == 0:
            raise WireError(f"no field starts at byte {at}")
        if at + size > end:
            raise WireError(f"a field of {size} bytes at byte {at} goes beyond the end")
        if kind == LENGTH:
            yield field, at, at + size
        else:
            yield field, int.from_bytes(data[at : at + size], "little"), -1
        at += size


def skip(data: Buffer, at: int, end: int) -> int:
    """Return where the field after the one at ``at`` starts."""
    tag, at = varint(data, at)
    kind = tag & 7
    if kind == VARINT:
        return varint(data, at)[1]
    size = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
    if kind == LENGTH:
        size, at = varint(data, at)
    if size < 0 or at + size > end:
        raise WireError(f"no whole field at byte {at}")
    return at + size


def message(data: Buffer, start: int = 0, end: int | None = None) -> dict[int, list[Any]]:
    """Return all values of a small message by field number: bytes where a field has a length, numbers otherwise."""
    found: dict[int, list[Any]] = {}
    for field, value, stop in spans(data, start, len(data) if end is None else end):
        found.setdefault(field, []).append(value if stop < 0 else bytes(data[value:stop]))
    return found


def text(raw: Any) -> str:
    """Return the string that a field holds; empty where it holds none."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""


def last(found: Mapping[int, list[Any]], field: int, default: Any = None) -> Any:
    """Return the last value of a field that occurs once; that is the one that counts."""
    values = found.get(field)
    return values[-1] if values else default


def numbers(values: list[Any]) -> list[int]:
    """Return a repeated number, packed or not."""
    found: list[int] = []
    for value in values:
        if not isinstance(value, bytes):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(one)
    return found


def signed(value: int) -> int:
    """Return a 64-bit number with its sign."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int) -> float:
    """Return a 64-bit pattern as a float."""
    found: float = struct.unpack("<d", (value & (1 << 64) - 1).to_bytes(8, "little"))[0]
    return found
