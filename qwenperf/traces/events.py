"""Walks the events of one line of a profile, and decodes of each only what is asked for.

Written for millions of events. Fields are expected in the order of their numbers, as every writer puts them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf.traces import wire
from qwenperf.traces.planes import EventMetadata, Line, Plane

_EVENT, _METADATA_ID, _OFFSET, _DURATION = 0x22, 0x08, 0x10, 0x18
_REFERENCE, _TEXT, _NUMBERS = 0x38, 0x2A, (0x18, 0x20)
_FORGET_BYTES = 1 << 26
_FAR_PS = 1 << 61
"""Picoseconds, a month: what lies farther from the first line's clock is no time, and would not fit the arrays."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One line of a plane, whose clock starts at ``shift_ps``."""

    data: mmap.mmap
    plane: Plane
    line: Line
    shift_ps: int

    def events(self) -> Iterator[tuple[int, int, int, bytes, int]]:
        """Yield number, start, duration, the event's bytes, and where in them its statistics begin."""
        data, at, end, forgotten = self.data, self.line.start, self.line.end, self.line.start
        shift_ps = self.shift_ps
        while at < end:
            if data[at] != _EVENT:
                at = wire.skip(data, at, end)
                continue
            size, at = wire.varint(data, at + 1)
            stop = at + size
            if stop > end:
                raise wire.WireError(f"an event goes beyond its line at byte {at}")
            raw = data[at:stop]
            at = stop
            number, offset, duration, stats = _head(raw)
            start = shift_ps + offset
            if not -_FAR_PS < start < _FAR_PS > duration:
                raise wire.WireError(f"an event is out of time at byte {at}")
            yield number, start, duration, raw, stats
            if at - forgotten > _FORGET_BYTES:
                forgotten = _forget(data, forgotten, at)

    def metadata(self, number: int) -> EventMetadata:
        """Return what is known of events of one number."""
        known = self.plane.events.get(number)
        return known or EventMetadata(number=number, name=f"event {number}", display_name="", stat_spans=())


def _forget(data: mmap.mmap, start: int, end: int) -> int:
    """Let the system take back pages that were read: a map of a large file would count as memory in use."""
    if hasattr(mmap, "MADV_DONTNEED"):
        first = start - start % mmap.PAGESIZE
        data.madvise(mmap.MADV_DONTNEED, first, end - end % mmap.PAGESIZE - first)
    return end


def _head(raw: bytes) -> tuple[int, int, int, int]:
    """Return number, offset and duration of an event, and where its statistics begin."""
    number = offset = duration = at = 0
    size = len(raw)
    while at < size:
        tag = raw[at]
        if tag == _EVENT:  # a statistic has the same number in an event as an event in its line
            break
        if tag not in {_METADATA_ID, _OFFSET, _DURATION}:
            at = wire.skip(raw, at, size)
            continue
        # A number as ``wire.varint`` reads it: a call for each of millions would be half of the time.
        value = shift = 0
        byte = 0x80
        while byte >= 0x80:
            at += 1
            byte = raw[at]
            value |= (byte & 0x7F) << shift
            shift += 7
        at += 1
        if tag == _METADATA_ID:
            number = value
        elif tag == _OFFSET:
            offset = wire.signed(value)
        else:
            duration = wire.signed(value)
    return number, offset, duration, at


def read_stats(raw: bytes, at: int, wanted: Mapping[int, str], names: Mapping[int, str]) -> dict[str, Any]:
    """Return the ``wanted`` statistics of an event by name, and stop when there are all."""
    found: dict[str, Any] = {}
    size = len(raw)
    while at < size and raw[at] == _EVENT:
        length, at = wire.varint(raw, at + 1)
        stop = at + length
        number, inner = wire.varint(raw, at + 1) if length and raw[at] == _METADATA_ID else (0, at)
        name = wanted.get(number)
        if name is not None and inner < stop:
            tag = raw[inner]
            value, inner = wire.varint(raw, inner + 1)
            if tag == _REFERENCE:
                found[name] = names.get(value, "")
            elif tag == _TEXT:
                found[name] = wire.text(raw[inner : inner + value])
            elif tag in _NUMBERS:
                found[name] = value
            if len(found) == len(wanted):
                break
        at = stop
    return found
