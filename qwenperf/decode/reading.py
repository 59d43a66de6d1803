"""How a prompt is cut into pieces that few programs can read: chunks, and lengths padded to a multiple of a bucket.

Plain numbers on the host; the functions that read a piece are in ``prefill``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwenperf.workloads.engine import EngineSettings


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Tokens of a prompt that one call reads: ``count`` from ``start`` on, padded at their end to ``width``."""

    start: int
    count: int
    width: int

    def cut(self, prompt_BT: np.ndarray) -> np.ndarray:
        """Return the piece's tokens [B, width]; each row's last one pads it, which nothing attends to."""
        # Of another token, one that the prompt need not bear, numbers might be infinite: 0 * NaN is NaN.
        tokens = prompt_BT[:, self.start : self.start + self.count]
        return np.pad(tokens, ((0, 0), (0, self.width - self.count)), mode="edge")

    @property
    def span(self) -> np.ndarray:
        """What tells a program of the padding: int32 [start, count]."""
        return np.asarray((self.start, self.count), np.int32)


def in_pieces(settings: EngineSettings) -> bool:
    """Say whether a prefill is told which of its tokens are real."""
    return bool(settings.prefill_chunk or settings.bucket)


def pieces(length: int, settings: EngineSettings, capacity: int) -> tuple[Piece, ...]:
    """Return how a prompt of ``length`` is read.

    A last piece that would reach past the capacity is as short as the room left, or starts earlier and reads some
    tokens again: a write past the end would be moved to the front of it, over tokens that are already there.
    """
    chunk, bucket = settings.prefill_chunk, settings.bucket
    if not chunk:
        return (Piece(start=0, count=length, width=_padded(length, bucket or 1, capacity)),)
    chunk = min(chunk, capacity)
    whole = (length - 1) // chunk * chunk
    read = tuple(Piece(start=start, count=chunk, width=chunk) for start in range(0, whole, chunk))
    last = _padded(length - whole, bucket or chunk, chunk)
    start = min(whole, capacity - last)
    return (*read, Piece(start=start, count=length - start, width=last))


def _padded(length: int, multiple: int, most: int) -> int:
    return min(-(-length // multiple) * multiple, most)
