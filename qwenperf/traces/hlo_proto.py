"""Reads the compiled programs that a profile holds (serialised ``HloProto``): instructions, shapes, sources.

Only what explains time is read; constants and layouts are passed over.
Fields: https://github.com/openxla/xla/blob/main/xla/service/hlo.proto and xla/xla_data.proto
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from qwenperf.traces import wire

_DTYPES = dict(
    enumerate(
        "pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 f8e5m2 f8e4m3fn s4 u4"
        " f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu".split(),
        start=1,
    )
)
_BITS = {"pred": 8, "tuple": 0, "opaque": 0, "token": 0, "bf16": 16, "c64": 64, "c128": 128}
_MOST_FRAMES = 8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A type: ``dtype`` and ``sizes`` of an array, or the ``parts`` of a tuple."""

    dtype: str
    sizes: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()

    @property
    def elements(self) -> int:
        """How many elements there are, those of all parts together."""
        return sum(part.elements for part in self.parts) if self.parts else math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """How many bytes they take."""
        if self.parts:
            return sum(part.bytes for part in self.parts)
        digits = "".join(filter(str.isdigit, self.dtype[:3]))
        bits = _BITS.get(self.dtype, int(digits) if digits else 0)
        return math.ceil(math.prod(self.sizes) * (8 if self.dtype.startswith("f8") else bits) / 8)

    def __str__(self) -> str:
        if self.parts:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction. ``operands`` and ``calls`` are ids; ``functions`` called each other, the innermost first.

    ``source`` is ``folder/file.py:line``; ``contracted`` are the axes of its first operand that a product sums over.
    """

    id: int
    name: str
    opcode: str
    shape: Shape
    op_name: str = ""
    source: str = ""
    functions: tuple[str, ...] = ()
    operands: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()
    number: int = 0
    contracted: tuple[int, ...] = ()
    target: str = ""


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Instructions by id, and which of them is the result."""

    id: int
    instructions: Mapping[int, Instruction]
    root: int


@dataclass(frozen=True, kw_only=True)
class Module:
    """A program. ``entry`` is the id of the computation that runs first."""

    name: str
    computations: Mapping[int, Computation]
    entry: int


@dataclass(frozen=True, kw_only=True)
class _Frames:
    """The table of call stacks: a frame is where it is and who called it. ``known`` are stacks that were asked for."""

    files: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    places: list[dict[int, list[Any]]] = field(default_factory=list)
    frames: list[dict[int, list[Any]]] = field(default_factory=list)
    known: dict[Any, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def stack(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return source and function of a frame, of its caller, and so on."""
        if number not in self.known:
            self.known[number] = tuple(self._walk(number))
        return self.known[number]

    def _walk(self, number: int) -> Iterator[tuple[str, str]]:
        for _ in range(_MOST_FRAMES):
            frame = _at(self.frames, number)
            place = _at(self.places, wire.last(frame, 1, 0)) if frame else None
            if frame is None or place is None:
                return
            file = _at(self.files, wire.last(place, 1, 0)) or ""
            function = _at(self.functions, wire.last(place, 2, 0)) or ""
            yield _source(file, wire.last(place, 3, 0)), function.rpartition(".")[2]
            number = wire.last(frame, 2, 0)


def read_module(proto: bytes) -> Module:
    """Read a serialised ``HloProto``.

    Raises:
      WireError: the bytes are cut, or are no program.
    """
    module = wire.message(_bytes(wire.last(wire.message(proto), 1)))
    frames = _frames(_bytes(wire.last(module, 17)))
    computations = [_computation(_bytes(raw), frames) for raw in module.get(3, [])]
    return Module(
        name=wire.text(wire.last(module, 1)),
        computations={one.id: one for one in computations},
        entry=wire.last(module, 6, 0),
    )


def _computation(raw: bytes, frames: _Frames) -> Computation:
    found = wire.message(raw)
    instructions = [_instruction(_bytes(one), frames) for one in found.get(2, [])]
    return Computation(
        id=wire.last(found, 5, 0), instructions={one.id: one for one in instructions}, root=wire.last(found, 6, 0)
    )


def _instruction(raw: bytes, frames: _Frames) -> Instruction:
    found = wire.message(raw)
    about = wire.message(_bytes(wire.last(found, 7)))
    stack = frames.stack(wire.last(about, 15, 0))
    written = _source(wire.text(wire.last(about, 3)), wire.last(about, 4, 0))
    return Instruction(
        id=wire.last(found, 35, 0),
        name=wire.text(wire.last(found, 1)),
        opcode=wire.text(wire.last(found, 2)),
        shape=_shape(_bytes(wire.last(found, 3))),
        op_name=wire.text(wire.last(about, 2)),
        source=written or (stack[0][0] if stack else ""),
        functions=tuple(function for _, function in stack),
        operands=tuple(wire.numbers(found.get(36, []))),
        calls=tuple(wire.numbers(found.get(38, []))),
        number=wire.last(found, 9, 0),
        contracted=tuple(wire.numbers(wire.message(_bytes(wire.last(found, 30))).get(1, []))),
        target=wire.text(wire.last(found, 28)),
    )


@lru_cache(maxsize=4096)
def _shape(raw: bytes) -> Shape:
    found = wire.message(raw)
    return Shape(
        dtype=_DTYPES.get(wire.last(found, 2, 0), "unknown"),
        sizes=tuple(wire.numbers(found.get(3, []))),
        parts=tuple(_shape(_bytes(part)) for part in found.get(4, [])),
    )


def _frames(raw: bytes) -> _Frames:
    found = wire.message(raw)
    return _Frames(
        files=[wire.text(one) for one in found.get(1, [])],
        functions=[wire.text(one) for one in found.get(2, [])],
        places=[wire.message(_bytes(one)) for one in found.get(3, [])],
        frames=[wire.message(_bytes(one)) for one in found.get(4, [])],
    )


def _at(items: list[Any], number: int) -> Any:
    """Return an item of a table that counts from 1; 0 is none."""
    return items[number - 1] if 0 < number <= len(items) else None


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _source(file: str, line: int) -> str:
    """Return the last folder and file with the line: the rest differs from machine to machine."""
    return f"{'/'.join(PurePath(file).parts[-2:])}:{line}" if file else ""
