"""The seam to anybody's engine: small protocols, each asked for with ``isinstance``.

An engine needs ``generate`` only. Whatever else it offers lets more gates look: steps that give logits,
a stream, compiled programs, sizes, an uncached reference.

Axis names: B batch, T prompt or sequence length, N new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

Tokens = jax.Array | np.ndarray
State = Any


@runtime_checkable
class Engine(Protocol):
    """Generates tokens greedily."""

    @property
    def name(self) -> str:
        """What tables and messages call the engine."""
        ...

    def generate(self, tokens_BT: Tokens, new_tokens: int) -> Tokens:
        """Return int32 tokens [B, new_tokens], on the host or on the device; may return before the device is done.

        Raises:
          CapacityError: prompt and new tokens do not fit the cache.
          TokenError: an empty prompt, or tokens outside the vocabulary.
        """
        ...


@runtime_checkable
class StepEngine(Protocol):
    """Gives logits one position at a time; ``state`` is opaque and may be consumed (donated) by the next step."""

    def prefill(self, tokens_BT: Tokens) -> tuple[jax.Array, State]:
        """Return logits [B, V] of the last prompt position, and the state after the prompt."""
        ...

    def decode_step(self, tokens_B: Tokens, state: State) -> tuple[jax.Array, State]:
        """Append one token a row; return logits [B, V] for the position after it, and the new state."""
        ...


@runtime_checkable
class StreamingEngine(Protocol):
    """Yields tokens as they are made, one array of shape [B] a step."""

    def stream(self, tokens_BT: Tokens, new_tokens: int) -> Iterator[jax.Array]:
        """Yield ``new_tokens`` int32 arrays [B]; each may still be on its way from the device."""
        ...


@runtime_checkable
class ReferencedEngine(Protocol):
    """Knows the truth about its own model: logits of the whole sequence, computed without a cache."""

    def uncached_logits(self, tokens_BT: Tokens) -> jax.Array:
        """Return logits [B, T, V] of every position."""
        ...


@runtime_checkable
class CompiledEngine(Protocol):
    """Exposes its programs, so that gates can read what the compiler made."""

    def programs(self, batch: int, prompt_length: int, new_tokens: int) -> Mapping[str, Program]:
        """Return programs by name (``prefill``, ``decode_step``, ``generate``) for one workload; may be empty."""
        ...


@runtime_checkable
class SizedEngine(Protocol):
    """Knows its own sizes and work."""

    def facts(self, batch: int, prompt_length: int, new_tokens: int) -> EngineFacts:
        """Return bytes and FLOPs for one workload, by formula."""
        ...


@dataclass(frozen=True, kw_only=True)
class Program:
    """One compiled program. ``donated`` names the arguments that the caller gives up, as key paths (``cache.k[0]``).

    ``cache_shapes`` are HLO shapes (``f32[2,36,64]``) of the cache's arrays, so that copies of it can be found;
    ``cache_bytes`` is their size, where it was seen in a state. Of what is divided over devices a program has one
    device's part: that is what ``donated_bytes``, ``cache_shapes`` and ``cache_part_bytes`` tell.
    """

    name: str
    compiled: jax.stages.Compiled
    lowered_text: str = ""
    donated: tuple[str, ...] = ()
    donated_bytes: int = 0
    cache_shapes: tuple[str, ...] = ()
    cache_bytes: int | None = None
    cache_part_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """Sizes in bytes and work in FLOPs of one workload; ``None`` where the engine cannot say.

    ``flops_per_request`` counts prefill and all new tokens as this engine does them (quadratic without a cache). Sizes
    and work are those of all ``devices`` together, each of which has a memory of its own; ``None`` for as many as the
    widest array of the process lies on.
    """

    weight_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_allocated_bytes: int | None = None
    bytes_per_step: int | None = None
    flops_per_step: float | None = None
    flops_per_request: float | None = None
    dispatches_per_request: int | None = None
    vocab_size: int | None = None
    devices: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
