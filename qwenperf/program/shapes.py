"""Types as HLO text writes them: dtype, sizes, layout, tiles and memory space, and the bytes that they take.

``bf16[24,896,128]{2,1,0:T(8,128)(2,1)S(1)}`` is an array of 24 x 896 x 128 in tiles of 8 x 128 in memory space 1. Space
0, which is not written, is the device's main memory (HBM, or a CPU's); the others are on the chip.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

_ARRAY = re.compile(r"(?P<dtype>[a-z]\w{0,20})\[(?P<sizes>[^\[\]]*)\](?:\{(?P<layout>[^{}]*)\})?")
_LAYOUT = re.compile(r"\{[^{}]*\}")
_NUMBER = re.compile(r"\d{1,15}")
_TILE = re.compile(r"T\((?P<sizes>[\d, ]*)\)")
_SPACE = re.compile(r"S\((?P<number>\d{1,4})\)")
_ELEMENT_BITS = re.compile(r"E\((?P<bits>\d{1,3})\)")
_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128, "s4": 8, "u4": 8, "s2": 8, "u2": 8}
"""Bits of an element where the name does not tell; smaller integers than eight bits are unpacked by default."""

_MOST_ELEMENTS = 10**18
"""More than any memory holds: such a size is a garbled one."""

_MOST_TILE = 2**16
_MOST_TILE_AXES = 4

HOST_SPACE = 5
"""The memory of the host, to which arrays are moved off a device."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """One array of a type. ``order`` is its axes from minor to major; ``space`` 0 is main memory."""

    dtype: str
    sizes: tuple[int, ...]
    order: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    space: int = 0
    bits: int = 32

    def __str__(self) -> str:
        """Write it without its layout: ``bf16[24,896]``."""
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of the elements alone."""
        return self.elements * self.bits // 8

    @property
    def stored_bytes(self) -> int:
        """Bytes that the array takes where it lies, with what its tiles are padded by."""
        return self.stored_elements * self.bits // 8

    @property
    def stored_elements(self) -> int:
        """Elements after the most minor axes were filled up to whole tiles."""
        if not self.tile or 0 in self.sizes:
            return self.elements
        minor_first = [self.sizes[axis] for axis in self.order if axis < len(self.sizes)]
        tile_minor_first = self.tile[::-1]
        minor_first += [1] * (len(tile_minor_first) - len(minor_first))
        filled = [-(-size // tile) * tile for size, tile in zip(minor_first, tile_minor_first, strict=False)]
        return math.prod(filled) * math.prod(minor_first[len(tile_minor_first) :])

    @property
    def padding(self) -> float:
        """What the array takes over what it holds: 2.0 where 64 columns lie in tiles of 128."""
        return self.stored_elements / self.elements if self.elements else 1.0

    @property
    def arrangement(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Order and tile: two arrays of one size and arrangement are copied without moving an element."""
        return self.order, self.tile


@lru_cache(maxsize=8192)
def arrays(text: str) -> tuple[Array, ...]:
    """Return all arrays of a type, tuples flattened; what is no array is left out."""
    return tuple(_array(match) for match in _ARRAY.finditer(text))


def array(text: str) -> Array | None:
    """Return the array that ``text`` is; ``None`` for a tuple, a token or what is no type."""
    found = arrays(text)
    return found[0] if len(found) == 1 and not text.startswith("(") else None


@lru_cache(maxsize=8192)
def members(text: str) -> tuple[str, ...]:
    """Split a tuple's type into its members; anything else is its own only member."""
    if not text.startswith("("):
        return (text,)
    parts, depth, start = [], 0, 1
    for index, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if (character == "," and depth == 1) or (character == ")" and depth == 0):
            parts.append(re.sub(r"/\*.*?\*/", "", text[start:index]).strip())
            start = index + 1
        if depth == 0:
            break
    return tuple(part for part in parts if part)


def stored_bytes(text: str, *, space: int | None = None) -> int:
    """Return the bytes that all arrays of a type take, of one memory space if asked for."""
    return sum(one.stored_bytes for one in arrays(text) if space is None or one.space == space)


def without_layout(text: str) -> str:
    """Return a type without layouts, tiles and memory spaces."""
    return _LAYOUT.sub("", text)


def numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers of a list such as ``2,1,0``."""
    return tuple(int(match[0]) for match in _NUMBER.finditer(text))


def _array(match: re.Match[str]) -> Array:
    sizes = numbers(match["sizes"])
    if math.prod(sizes) > _MOST_ELEMENTS:
        sizes = (0,)
    order_text, _, rest = (match["layout"] or "").partition(":")
    order = numbers(order_text)
    if sorted(order) != list(range(len(sizes))):
        order = tuple(reversed(range(len(sizes))))
    tile, space, packed = _TILE.search(rest), _SPACE.search(rest), _ELEMENT_BITS.search(rest)
    return Array(
        dtype=match["dtype"],
        sizes=sizes,
        order=order,
        tile=_tile(tile["sizes"]) if tile else (),
        space=int(space["number"]) if space else 0,
        bits=int(packed["bits"]) if packed else bits(match["dtype"]),
    )


def _tile(text: str) -> tuple[int, ...]:
    """Return the sizes of a tile; of none that no chip could have."""
    sizes = numbers(text)
    return sizes if all(0 < size <= _MOST_TILE for size in sizes) and len(sizes) <= _MOST_TILE_AXES else ()


def whole_number(text: str) -> int | None:
    """Return the whole number that a constant is; ``None`` for anything else."""
    match = re.fullmatch(r"-?\d{1,18}", text.strip())
    return int(match[0]) if match else None


def bits(dtype: str) -> int:
    """Return the bits of one element of ``dtype``; 32 for a name without a width."""
    if dtype in _BITS:
        return _BITS[dtype]
    width = re.match(r"[a-z]+(\d{1,3})", dtype)
    return int(width[1]) if width else 32
