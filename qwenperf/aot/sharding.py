"""How one of our models lies on several devices: tensor parallelism over heads, feed-forward and vocabulary.

    q, k, v, gate, up, head    [out, in]   out over the devices: each has whole heads
    o, down                    [out, in]   in over the devices: partial sums, one all-reduce each
    embedding                  [V, D]      rows over the devices
    keys, values                           heads over the devices, rows of the batch over the rest

As many devices share a layer's heads as divide the key/value heads. Where there are more, the batch is divided among
the rest if it can be; if not, they compute the same heads, and divide the feed-forward and the vocabulary with the
others. ``findings`` say so. What cannot be divided evenly is on every device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from qwenperf.decode.cache import is_stacked
from qwenperf.decode.state import KVCache, TokenBuffer
from qwenperf.models.config import ModelConfig
from qwenperf.schema.records import Finding, Severity
from qwenperf.workloads.engine import EngineSettings

DATA, TENSOR = "data", "tensor"

_HEADS_OUT = ("q_proj", "k_proj", "v_proj", "qkv_proj")
_HEADS_IN = ("o_proj",)
_WIDE_OUT = ("gate_proj", "up_proj", "gate_up_proj")
_WIDE_IN = ("down_proj",)
_TABLES = ("embed_tokens", "lm_head")
_INPUTS_FIRST = (("weight_io", 2), ("weight_q", 3), ("scale", 2), ("offset", 2))
"""Parts of a module, with their ranks, that have inputs first, or groups of inputs (see ``models.quantize``)."""

Axes = tuple[str, ...]
Spec = tuple[Axes, ...]
"""For each axis of an array, the axes of the mesh that it is divided over."""


@dataclass(frozen=True, kw_only=True)
class ModelLayout:
    """Where everything lies: over which axes of the mesh the batch (``rows``), heads and feed-forward are divided."""

    devices: tuple[Any, ...]
    settings: EngineSettings
    batch: int
    mesh: Mapping[str, int]
    rows: Axes
    heads: Axes
    wide: Axes
    findings: tuple[Finding, ...] = ()

    def weights(self, params: Any) -> Any:
        """Return the abstract weights with the device that each part is on."""
        stacked = self.settings.layers == "scanned"
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: self._placed(leaf, self._of_weight(_names(path), leaf, stacked=stacked)), params
        )

    def state(self, state: Any) -> Any:
        """Return the abstract state with the device that each part is on."""
        if isinstance(state, KVCache):
            spec = self._of_cache()
            layers = jax.tree.map(lambda leaf: self._placed(leaf, spec), state.layers)
            return KVCache(layers=layers, length=self.whole(state.length), seen=self.whole(state.seen))
        if isinstance(state, TokenBuffer):
            return TokenBuffer(tokens=self.tokens(state.tokens), length=self.whole(state.length))
        return self.whole(state)

    def tokens(self, tokens: Any) -> Any:
        """Return abstract tokens [B] or [B, T] with their devices."""
        return self._placed(tokens, (self.rows,))

    def whole(self, tree: Any) -> Any:
        """Return what every device has all of."""
        return jax.tree.map(lambda leaf: self._placed(leaf, ()), tree)

    def _placed(self, leaf: Any, spec: Spec) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._sharding(leaf.shape, spec))

    def _sharding(self, shape: Sequence[int], spec: Spec) -> Any:
        if len(self.devices) == 1:
            return SingleDeviceSharding(self.devices[0])
        divided = [self._divisible(axes, size) or None for axes, size in zip(spec, shape, strict=False)]
        return NamedSharding(make_mesh(self.devices, tuple(self.mesh.items())), PartitionSpec(*divided))

    def _divisible(self, axes: Axes, size: int) -> Axes:
        return axes if axes and size % math.prod(self.mesh[axis] for axis in axes) == 0 else ()

    def _of_weight(self, names: Sequence[str], leaf: Any, *, stacked: bool) -> Spec:
        *_, module, part = names
        lead: Spec = ((),) if stacked and names[0] == "layers" else ()
        rank = len(leaf.shape) - len(lead)
        outputs, inputs = {
            **dict.fromkeys(_HEADS_OUT, (self.heads, ())),
            **dict.fromkeys(_HEADS_IN, ((), self.heads)),
            **dict.fromkeys((*_WIDE_OUT, *_TABLES), (self.wide, ())),
            **dict.fromkeys(_WIDE_IN, ((), self.wide)),
        }.get(module, ((), ()))
        if part == "bias" or (part == "scale" and rank == 1):
            return (*lead, outputs)
        return (*lead, inputs, outputs) if (part, rank) in _INPUTS_FIRST else (*lead, outputs, inputs)

    def _of_cache(self) -> Spec:
        lead: Spec = ((),) if is_stacked(self.settings) else ()
        if self.settings.cache_layout == "position-major":
            return (*lead, self.rows, (), self.heads)
        return (*lead, (*self.rows, *self.heads))


def layout_of(config: ModelConfig, settings: EngineSettings, devices: tuple[Any, ...], *, batch: int) -> ModelLayout:
    """Return how a model of ``config`` lies on ``devices`` when it decodes ``batch`` rows at a time."""
    count = len(devices)
    heads = math.gcd(count, config.num_key_value_heads)
    rest = count // heads
    rows = rest > 1 and batch % rest == 0
    return ModelLayout(
        devices=devices,
        settings=settings,
        batch=batch,
        mesh={DATA: rest, TENSOR: heads},
        rows=(DATA,) if rows else (),
        heads=(TENSOR,),
        wide=(TENSOR,) if rows or rest == 1 else (DATA, TENSOR),
        findings=tuple(_findings(config, settings, batch=batch, heads=heads, rest=rest, rows=rows)),
    )


@cache
def make_mesh(devices: tuple[Any, ...], axes: tuple[tuple[str, int], ...]) -> Mesh:
    """Return a mesh of ``devices`` with axes of these sizes; neighbours on one are so on the chips' wires."""
    from jax.experimental import mesh_utils

    names, sizes = zip(*axes, strict=True)
    try:
        placed = mesh_utils.create_device_mesh(sizes, list(devices), allow_split_physical_axes=True)
    except (ValueError, NotImplementedError, AssertionError):  # a part of a host has wires that it does not know
        placed = np.array(devices).reshape(sizes)
    return Mesh(placed, names)


def _findings(
    config: ModelConfig, settings: EngineSettings, *, batch: int, heads: int, rest: int, rows: bool
) -> list[Finding]:
    found = []
    if rest > 1 and not rows:
        found.append(
            Finding(
                code="attention-repeated",
                severity=Severity.NOTE,
                message=f"{config.num_key_value_heads} key/value heads are divided among {heads} of "
                f"{heads * rest} devices; a batch of {batch} does not divide by {rest}, so that {rest} devices compute "
                "the same heads. The feed-forward and the vocabulary are divided among all.",
                advice=f"A batch that {rest} divides is shared among them.",
                data={"heads": heads, "repeated": rest},
            )
        )
    rows_each = batch // rest if rows else batch
    if heads > 1 and rows_each > 1 and settings.cache == "static" and settings.cache_layout != "position-major":
        found.append(
            Finding(
                code="cache-rows-and-heads",
                severity=Severity.WARNING,
                message=f"cache_layout={settings.cache_layout!r} has rows and heads on one axis, which {heads} devices "
                f"divide by rows: with {rows_each} rows each step exchanges keys and values between them.",
                advice="Take +cache_layout=position-major, which is divided by heads.",
                data={"rows": rows_each, "heads": heads},
            )
        )
    return found


def _names(path: Sequence[Any]) -> list[str]:
    return [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
