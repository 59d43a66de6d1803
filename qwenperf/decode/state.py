"""What passes from one step to the next: on the device as pytrees, and the host's own count beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Required, TypedDict

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from qwenperf.models.attention import KeysValues
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params
from qwenperf.models.masks import MaskTable
from qwenperf.models.rotary import RotaryTables
from qwenperf.models.variant import Variant

Layers = tuple[KeysValues, ...] | KeysValues
"""A pair of arrays for each layer, or one pair for all of them, stacked."""


class Tables(NamedTuple):
    """What is made once for an engine, where masks are read from a table too."""

    rotary: RotaryTables | None
    mask: MaskTable


StepTables = RotaryTables | Tables | None


class KVCache(NamedTuple):
    """Keys and values of every layer; of a static one the first ``length`` positions are filled.

    ``seen`` holds the activations that hooks captured, by point and position (see ``hooks``); else nothing.
    """

    layers: Layers
    length: Int[Array, ""]
    seen: Any = ()


class TokenBuffer(NamedTuple):
    """Tokens so far, padded to the capacity: the state of an engine that keeps no keys and values."""

    tokens: Int[Array, "B S"]
    length: Int[Array, ""]


class StepResult(NamedTuple):
    """What a step returns: logits for the next position, the greedy choice from them, the state after the step."""

    logits: Float[Array, "B V"]
    token: Int[Array, " B"]
    state: Any


class Bound(TypedDict, total=False):
    """What a step is bound to before it is traced: the model's configuration, and how its forward pass is written."""

    config: Required[ModelConfig]
    variant: Variant


class StepFunction(Protocol):
    """A pure function that feeds tokens ([B, T] in a prefill, [B] in a step) to a state."""

    def __call__(
        self, params: Params, tokens: Array, state: Any, tables: StepTables, *, config: ModelConfig
    ) -> StepResult:
        """Return logits, the next token and the new state; ``tables`` is None where rotary is recomputed."""
        ...


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """What ``prefill`` and ``decode_step`` hand out; ``length`` is counted on the host: bounds never wait."""

    device: Any
    length: int
    batch: int


def rotary_of(tables: StepTables) -> RotaryTables | None:
    """Return the rotary tables among what an engine has made."""
    return tables.rotary if isinstance(tables, Tables) else tables


def choose(logits_B1V: Float[Array, "B 1 V"], state: Any) -> StepResult:
    """Return the step's result with the greedy choice (the first of equals)."""
    logits_BV = jnp.squeeze(logits_B1V, 1)
    return StepResult(logits=logits_BV, token=lax.argmax(logits_BV, 1, jnp.int32), state=state)


def byte_size(tree: Any) -> int:
    """Return the bytes of a pytree's arrays, abstract ones included."""
    leaves = jax.tree.leaves(tree)
    return sum(math.prod(leaf.shape) * int(leaf.dtype.itemsize) for leaf in leaves)
