"""Where the forward pass may be listened to, or changed: named points, and what stands there.

    embed -> layers.0.input .. attention .. mlp .. output -> layers.1.input ... -> norm -> logits

``attention`` and ``mlp`` are what the residual stream gets added; the other points are the stream itself, and every
activation is [B, T, D] ([B, 1, V] at ``logits``, which are of the last position). Points are named by layer and not
by place in an array, so that layers scanned, written out or spread over devices have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Array, Int

LAYER_POINTS = ("input", "attention", "mlp", "output")
"""The points of every layer; a program calls them ``layers.input``, and gives the layer beside."""


@runtime_checkable
class Tap(Protocol):
    """Stands at every point while a program is traced; static data of the program."""

    def __call__(self, point: str, value: Array, layer: int | Int[Array, ""] | None = None) -> Array:
        """Return what goes on from ``point``; the layer's index is an array where layers are scanned."""
        ...

    def drain(self) -> dict[str, Array]:
        """Return what was captured in the body of a scan, as one of its outputs."""
        ...

    def keep(self, stacked: Mapping[str, Array]) -> None:
        """Take what ``drain`` returned, of all layers."""
        ...


@dataclass(frozen=True)
class Untouched:
    """Lets every activation pass: nothing of it is in the program."""

    def __call__(self, point: str, value: Array, layer: int | Int[Array, ""] | None = None) -> Array:
        """Return ``value``."""
        del point, layer
        return value

    def drain(self) -> dict[str, Array]:
        """Return nothing."""
        return {}

    def keep(self, stacked: Mapping[str, Array]) -> None:
        """Take nothing."""


UNTOUCHED = Untouched()


def points_of(layers: int) -> tuple[str, ...]:
    """Return the names of all points of a model of ``layers`` layers, in the order of the forward pass."""
    inner = [f"layers.{index}.{point}" for index in range(layers) for point in LAYER_POINTS]
    return ("embed", *inner, "norm", "logits")
