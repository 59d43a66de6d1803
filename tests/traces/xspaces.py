"""Writes profiles as the profiler would: the wire format of ``xplane.proto``, from plain Python values."""

from __future__ import annotations

import struct

US = 1_000_000
"""Picoseconds in a microsecond."""


def varint(value):
    """Encode a number; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def number(field, value):
    """Encode a number under a field."""
    return varint(field << 3) + varint(value)


def block(field, data):
    """Encode bytes, a string or a message under a field."""
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


class Ref(int):
    """A statistic that refers to a string by its number."""


def stat(key, value):
    """Encode one statistic by the type of its value."""
    if isinstance(value, Ref):
        return number(1, key) + number(7, value)
    if isinstance(value, bytes):
        return number(1, key) + block(6, value)
    if isinstance(value, str):
        return number(1, key) + block(5, value)
    if isinstance(value, float):
        return number(1, key) + varint(2 << 3 | 1) + struct.pack("<d", value)
    return number(1, key) + number(4, value)


class Plane:
    """One plane under construction: names become numbers as they come."""

    def __init__(self, name):
        self.name, self.names, self.stats, self.lines = name, {}, {}, b""
        self.about = {}

    def name_of(self, text):
        """Return the number of an event's name."""
        return self.names.setdefault(text, len(self.names) + 1)

    def stat_of(self, text):
        """Return the number of a statistic's name, or of a string that statistics refer to."""
        return self.stats.setdefault(text, len(self.stats) + 1)

    def known(self, name, display="", **stats):
        """Say what all events of a name have in common."""
        self.about[name] = (display, b"".join(block(5, stat(self.stat_of(key), one)) for key, one in stats.items()))
        return self

    def statistics(self, **stats):
        """Encode what an event carries."""
        return b"".join(block(4, stat(self.stat_of(key), one)) for key, one in stats.items())

    def event(self, name, start_us, duration_us, **stats):
        """Encode one event."""
        head = number(1, self.name_of(name)) + number(2, round(start_us * US)) + number(3, round(duration_us * US))
        return head + self.statistics(**stats)

    def marks(self, name, program="jit_step", program_id=7, run=1):
        """Return what the CPU and GPU backends say of an operation."""
        refs = {"hlo_op": Ref(self.stat_of(name)), "hlo_module": Ref(self.stat_of(program))}
        return {**refs, "program_id": program_id, "run_id": run}

    def operation(self, name, start_us, duration_us, program="jit_step", program_id=7, run=1):
        """Encode an operation of the CPU or GPU backend."""
        return self.event(name, start_us, duration_us, **self.marks(name, program, program_id, run))

    def line(self, name, events, start_ns=0):
        """Add a line of encoded events."""
        self.lines += block(3, block(2, name) + number(3, start_ns) + b"".join(block(4, one) for one in events))
        return self

    def encode(self):
        """Encode the whole plane."""
        metadata = b""
        for name in self.about:
            self.name_of(name)
        for name, key in self.names.items():
            display, stats = self.about.get(name, ("", b""))
            inner = number(1, key) + block(2, name) + (block(4, display) if display else b"") + stats
            metadata += block(4, number(1, key) + block(2, inner))
        for name, key in self.stats.items():
            metadata += block(5, number(1, key) + block(2, number(1, key) + block(2, name)))
        return block(2, self.name) + self.lines + metadata


def space(*planes, warnings=()):
    """Encode a whole profile."""
    return b"".join(block(1, plane.encode()) for plane in planes) + b"".join(block(3, text) for text in warnings)


def cpu(steps, operations, host=(), *, step_name="decode", threads=None):
    """Return a host's plane. Steps, operations and host events are ``(name, start_us, duration_us)``."""
    plane = Plane("/host:CPU")
    named = [plane.event(step_name, start, spent, step_num=index) for index, (start, spent) in enumerate(steps)]
    named += [plane.event(*one) for one in host]
    plane.line("python", named)
    for thread, members in (threads or {"tf_XLAEigen/1": operations}).items():
        plane.line(thread, [plane.operation(*one) for one in members])
    return plane
