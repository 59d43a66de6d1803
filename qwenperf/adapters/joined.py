"""One engine made of another's parts, so that a part can be added without taking any away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from qwenperf.decode.engine import Engine, EngineFacts, Program, State, Tokens


@dataclass(frozen=True, kw_only=True)
class JoinedEngine:
    """Parts under the names of ``decode.engine``; one that is ``None`` is absent, as runtime protocols count it."""

    name: str
    generate: Callable[[Tokens, int], jax.Array]
    prefill: Callable[[Tokens], tuple[jax.Array, State]] | None = None
    decode_step: Callable[[Tokens, State], tuple[jax.Array, State]] | None = None
    stream: Callable[[Tokens, int], Iterator[jax.Array]] | None = None
    programs: Callable[[int, int, int], Mapping[str, Program]] | None = None
    facts: Callable[[int, int, int], EngineFacts] | None = None
    uncached_logits: Callable[[Any], jax.Array] | None = None


PARTS = ("generate", "prefill", "decode_step", "stream", "programs", "facts", "uncached_logits")


def joined(name: str, *sources: Any, **parts: Any) -> JoinedEngine:
    """Return an engine of ``parts``, and of ``sources`` for what is not among them, the first that has it."""
    found = {part: next(filter(None, (getattr(source, part, None) for source in sources)), None) for part in PARTS}
    return JoinedEngine(name=name, **{**found, **parts})


def with_truth(engine: Engine, uncached_logits: Callable[[Any], jax.Array]) -> JoinedEngine:
    """Return ``engine`` with everything that it offers, and ``uncached_logits`` as the truth to compare it with."""
    return joined(engine.name, engine, uncached_logits=uncached_logits)
