"""One GGUF file, opened through the ``gguf`` package: its metadata as Python values, its tensors mapped and not read.

The package makes two arrays of every element of a list, which for the tokens and merges of a vocabulary is 100 MB and
some seconds. Here a list is one array; its strings are cut when they are asked for.
"""

from __future__ import annotations

import mmap
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, ReaderTensor

from qwenperf.errors import CheckpointError

_Parts = tuple[int, list[np.ndarray], list[int], list[GGUFValueType]]
_STRINGS = [GGUFValueType.ARRAY, GGUFValueType.STRING]


class _PlainReader(GGUFReader):
    """Reads through a plain view of the mapped file: metadata are many small slices, and np.memmap's are slow."""

    @property  # type: ignore[override]  # declared as a memmap, used as an array
    def data(self) -> np.ndarray:
        """The whole file, mapped."""
        return self._plain

    @data.setter
    def data(self, mapped: np.ndarray) -> None:
        self._plain = np.asarray(mapped)
        self.mapping: mmap.mmap = mapped._mmap  # type: ignore[attr-defined]  # noqa: SLF001  # its only name

    @property
    def length_format(self) -> struct.Struct:
        """How the file writes the length of a string."""
        little = (sys.byteorder == "little") == (self.byte_order == "I")
        return struct.Struct("<Q" if little else ">Q")

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> _Parts:
        """Return a list's elements as one part; everything else as the package does."""
        kind = GGUFValueType(raw_type)
        if kind != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        (inner,), (count,) = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        start, item = orig_offs + 12, self.gguf_scalar_to_np.get(GGUFValueType(inner))
        head = [self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)]
        if item is not None:
            values = self._get(start, item, int(count))
            if len(values) != count:
                raise ValueError("a list ends behind the end of the file")
        elif inner == GGUFValueType.STRING:
            values = self._get(start, np.uint8, self._end_of_strings(start, int(count)) - start)
        else:
            raise ValueError(f"a list of {GGUFValueType(inner).name}")
        return 12 + values.nbytes, [*head, values], [2], [kind, GGUFValueType(inner)]

    def _end_of_strings(self, start: int, count: int) -> int:
        length, place = self.length_format, start
        for _ in range(count):
            place += 8 + length.unpack_from(self._plain.data, place)[0]
        if place > len(self._plain):
            raise ValueError("a list of strings ends behind the end of the file")
        return place


class GgufFile:
    """An opened GGUF file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = _PlainReader(path)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: the file is missing.") from None
        except (OSError, ValueError, IndexError, KeyError, OverflowError, MemoryError, struct.error) as error:
            raise CheckpointError(f"{path}: cannot be read as GGUF, it is cut short or damaged ({error}).") from error

    def get(self, key: str, default: Any = None) -> Any:
        """Return the metadata value of ``key`` as a number, string, bool or list.

        Raises:
          CheckpointError: text that is no UTF-8.
        """
        field = self._reader.get_field(key)
        if field is None:
            return default
        try:
            return self._strings(field.parts[-1]) if field.types == _STRINGS else field.contents()
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{self.path}: metadata {key} is no text ({error}).") from None

    @property
    def architecture(self) -> str:
        """The model family that the file says it is of."""
        return str(self.get("general.architecture", ""))

    @property
    def is_swapped(self) -> bool:
        """Whether it has the other order of bytes than this machine: metadata are turned, tensors are not."""
        return bool(self._reader.byte_order == "S")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metadata."""
        return tuple(self._reader.fields)

    @property
    def tensors(self) -> tuple[ReaderTensor, ...]:
        """The stored tensors, mapped and not read."""
        return tuple(self._reader.tensors)

    def give_back(self) -> None:
        """Drop what was read from memory; a mapped page counts as resident until then, and is read again if needed."""
        self._reader.mapping.madvise(mmap.MADV_DONTNEED)

    def _strings(self, stored: np.ndarray) -> list[str]:
        """Cut a list of strings, each behind its length."""
        length, block, place, found = self._reader.length_format, stored.tobytes(), 0, []
        while place < len(block):
            end = place + 8 + length.unpack_from(block, place)[0]
            found.append(str(block[place + 8 : end], encoding="utf-8"))
            place = end
        return found
