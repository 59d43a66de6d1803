"""One plane of a profile without its events: its name, its lines, and what the numbers in its events stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf.traces import wire

_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA = 2, 3, 4, 5
_MAP_VALUE = 2
_LINE_NAME, _LINE_START_NS, _LINE_EVENTS = 2, 3, 4


@dataclass(frozen=True, kw_only=True)
class EventMetadata:
    """What events of one number have in common. ``stat_spans`` are where its statistics lie in the file."""

    number: int
    name: str
    display_name: str
    stat_spans: tuple[tuple[int, int], ...]

    def stats(self, data: wire.Buffer, names: Mapping[int, str]) -> dict[str, Any]:
        """Return the statistics by name; a reference is the string that it refers to."""
        return dict(stat(wire.message(data, start, end), names) for start, end in self.stat_spans)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of events: a thread, a stream, a core. The events, if ``used``, lie between ``start`` and ``end``."""

    name: str
    start_ns: int
    used: bool
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Plane:
    """The host, or one device."""

    name: str
    lines: tuple[Line, ...]
    events: Mapping[int, EventMetadata]
    stat_names: Mapping[int, str]

    def number_of(self, stat_name: str) -> int:
        """Return the number of a statistic in this plane; -1 where it has none."""
        return next((number for number, name in self.stat_names.items() if name == stat_name), -1)


def read_plane(data: wire.Buffer, start: int, end: int) -> Plane:
    """Read everything of a plane but its events.

    Raises:
      WireError: the bytes are no plane.
    """
    name, lines = "", []
    events: dict[int, EventMetadata] = {}
    stat_names: dict[int, str] = {}
    for field, value, stop in wire.spans(data, start, end):
        if stop < 0:
            continue
        if field == _NAME:
            name = wire.text(bytes(data[value:stop]))
        elif field == _LINES:
            lines.append(_line(data, value, stop))
        elif field == _EVENT_METADATA:
            events |= {one.number: one for one in _event_metadata(data, value, stop)}
        elif field == _STAT_METADATA:
            stat_names |= _stat_name(data, value, stop)
    return Plane(name=name, lines=tuple(lines), events=events, stat_names=stat_names)


def _line(data: wire.Buffer, start: int, end: int) -> Line:
    """Read what comes before the first event; writers put fields in the order of their numbers."""
    name, start_ns, used = "", 0, False
    for field, value, stop in wire.spans(data, start, end):
        if field == _LINE_EVENTS:
            used = True
            break
        if field == _LINE_NAME and stop >= 0:
            name = wire.text(bytes(data[value:stop]))
        elif field == _LINE_START_NS and stop < 0:
            start_ns = wire.signed(value)
    return Line(name=name, start_ns=start_ns, used=used, start=start, end=end)


def _event_metadata(data: wire.Buffer, start: int, end: int) -> Iterator[EventMetadata]:
    for field, value, stop in wire.spans(data, start, end):
        if field != _MAP_VALUE or stop < 0:
            continue
        number, name, display_name, stat_spans = 0, "", "", []
        for inner, at, till in wire.spans(data, value, stop):
            if inner == 1 and till < 0:
                number = at
            elif inner == 2 and till >= 0:
                name = wire.text(bytes(data[at:till]))
            elif inner == 4 and till >= 0:
                display_name = wire.text(bytes(data[at:till]))
            elif inner == 5 and till >= 0:
                stat_spans.append((at, till))
        yield EventMetadata(number=number, name=name, display_name=display_name, stat_spans=tuple(stat_spans))


def _stat_name(data: wire.Buffer, start: int, end: int) -> dict[int, str]:
    found = {}
    for value in wire.message(data, start, end).get(_MAP_VALUE, []):
        if isinstance(value, bytes):
            inner = wire.message(value)
            number = wire.last(inner, 1, 0)
            found[number if isinstance(number, int) else 0] = wire.text(wire.last(inner, 2))
    return found


def stat(found: Mapping[int, list[Any]], names: Mapping[int, str]) -> tuple[str, Any]:
    """Return name and value of one decoded statistic; ``None`` where it holds no value that is known."""
    name = names.get(wire.last(found, 1, 0), "")
    for field, value in ((key, values[-1]) for key, values in found.items() if key != 1):
        match field, value:
            case 2, int():
                return name, wire.double(value)
            case ((3 | 4), int()):
                return name, wire.signed(value) if field == 4 else value
            case 5, bytes():
                return name, wire.text(value)
            case 6, bytes():
                return name, value
            case 7, int():
                return name, names.get(value, "")
    return name, None
