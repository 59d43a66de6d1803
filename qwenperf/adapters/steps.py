"""A ``prefill``/``decode_step`` pair as an engine: greedy decoding, with the choice of the token on the device.

Loops on the host: every step is one call of the user's function, so what it recompiles or copies shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.adapters.programs import abstract_result, cache_bytes, program_of
from qwenperf.adapters.prompt import greedy, last_logits, logits_and_state
from qwenperf.decode.engine import EngineFacts, Program, State, Tokens


@dataclass(frozen=True, kw_only=True)
class StepsEngine:
    """``prefill(tokens [B, T])`` and ``step(tokens [B], state)``, each returning logits and the state after it.

    ``uncached_logits`` (tokens [B, T] to logits [B, T, V]) is the truth to compare with; ``None`` where there is
    none (see ``prefix_logits`` for one made of ``prefill`` alone).
    """

    name: str
    first: Callable[[Any], tuple[Any, Any]]
    step: Callable[[Any, Any], tuple[Any, Any]]
    uncached_logits: Callable[[Any], jax.Array] | None = None

    def prefill(self, tokens_BT: Tokens) -> tuple[jax.Array, State]:
        """Return logits [B, V] of the last prompt position, and the state after the prompt."""
        logits, state = logits_and_state(self.first(tokens_BT), f"{self.name}.prefill")
        return last_logits(logits, f"{self.name}.prefill"), state

    def decode_step(self, tokens_B: Tokens, state: State) -> tuple[jax.Array, State]:
        """Append one token a row; return logits [B, V] for the position after it, and the new state."""
        logits, state = logits_and_state(self.step(tokens_B, state), f"{self.name}.decode_step")
        return last_logits(logits, f"{self.name}.decode_step"), state

    def stream(self, tokens_BT: Tokens, new_tokens: int) -> Iterator[jax.Array]:
        """Yield ``new_tokens`` int32 arrays [B]; each may still be on its way from the device."""
        logits, state = self.prefill(tokens_BT)
        token_B = greedy(logits)
        yield token_B
        for _ in range(new_tokens - 1):
            logits, state = self.decode_step(token_B, state)
            token_B = greedy(logits)
            yield token_B

    def generate(self, tokens_BT: Tokens, new_tokens: int) -> jax.Array:
        """Return int32 tokens [B, new_tokens]."""
        return jnp.stack(list(self.stream(tokens_BT, new_tokens)), axis=1)

    def programs(self, batch: int, prompt_length: int, new_tokens: int) -> Mapping[str, Program]:
        """Return the decode step's program where ``step`` is jitted (or a partial of such), else nothing."""
        del new_tokens
        _, state = self.prefill(np.zeros((batch, prompt_length), np.int32))
        program = program_of("decode_step", self.step, jnp.zeros((batch,), jnp.int32), state, state=state)
        return {} if program is None else {program.name: program}

    def facts(self, batch: int, prompt_length: int, new_tokens: int) -> EngineFacts:
        """Return the size of the state where ``first`` is jitted, so that it can be known without running it."""
        del new_tokens
        result = abstract_result(self.first, np.zeros((batch, prompt_length), np.int32))
        size = None if result is None else cache_bytes(logits_and_state(result, f"{self.name}.prefill")[1])
        return EngineFacts(kv_cache_allocated_bytes=size or None)


def prefix_logits(prefill: Callable[[Any], tuple[Any, Any]], start: int = 1) -> Callable[[Any], jax.Array]:
    """Return uncached logits made of ``prefill`` on every prefix: right by construction, one call a position.

    Prefixes shorter than ``start`` are not asked for, and read zero. Slow where ``prefill`` compiles for each
    length; give a forward of the whole sequence where there is one.
    """

    def uncached_logits(tokens_BT: Tokens) -> jax.Array:
        lengths = range(start, np.shape(tokens_BT)[1] + 1)
        logits = (logits_and_state(prefill(tokens_BT[:, :length]), "prefill")[0] for length in lengths)
        asked = [np.asarray(last_logits(one, "prefill")) for one in logits]
        return jnp.stack([np.zeros_like(asked[0])] * (start - 1) + asked, axis=1)

    return uncached_logits
