"""One safetensors file: checked when it is opened, read tensor by tensor through a mapping.

A tensor is copied out of the mapping piece by piece, and pages that were copied are given back: a mapping counts
as resident memory for as long as it stands. The copy is aligned so that a CPU device takes it over as it is;
elsewhere it is freed once it has been sent.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from qwenperf.errors import CheckpointError
from qwenperf.models.assemble import Tensor
from qwenperf.models.family import Shape

_STORED: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(jnp.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
}
_PIECE_BYTES = 8 << 20
# What XLA's CPU client asks of memory that it is to use without copying it.
_ALIGNMENT_BYTES = 64


def open_file(path: Path, is_left_out: Callable[[str], bool] = lambda _name: False) -> list[Tensor]:
    """Return the file's tensors, not read yet.

    Args:
      path: the file.
      is_left_out: says of a name that nobody will read that tensor, whose dtype then may be any.

    Raises:
      CheckpointError: the file is cut short or damaged, or holds a dtype that is not read.
    """
    try:
        # The library checks that header and sizes fit each other and the file.
        with safe_open(path, framework="numpy"):
            header, start = _header(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read, it is cut short or damaged ({error}).") from error
    for name, entry in header.items():
        if entry["dtype"] not in _STORED and not is_left_out(name):
            raise CheckpointError(
                f"{path}: tensor {name!r} is stored as {entry['dtype']}; only {', '.join(_STORED)} are read."
            )
    return [_tensor(path, name, entry, start) for name, entry in header.items()]


def empty_aligned(shape: Shape, dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised array that a CPU device can take over."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    first = -room.ctypes.data % _ALIGNMENT_BYTES
    values: np.ndarray = room[first : first + size].view(dtype).reshape(shape)
    return values


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the entries of the tensors by name, and where in the file their data start."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def _tensor(path: Path, name: str, entry: dict[str, Any], start: int) -> Tensor:
    shape = tuple(entry["shape"])
    # A dtype that is not known is that of a tensor that is left out.
    dtype = _STORED.get(entry["dtype"], np.dtype(np.uint8))
    read = _reader(path, start + entry["data_offsets"][0], shape, dtype)
    return Tensor(name=name, file=path, shape=shape, read=read)


def _reader(path: Path, start: int, shape: Shape, dtype: np.dtype[Any]) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        values = empty_aligned(shape, dtype)
        target = values.reshape(-1).view(np.uint8)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for begin in range(0, target.size, _PIECE_BYTES):
                piece = target[begin : begin + _PIECE_BYTES]
                piece[:] = np.frombuffer(mapped, np.uint8, piece.size, start + begin)
                mapped.madvise(mmap.MADV_DONTNEED)
        return values

    return read
