"""Any ``generate(tokens, new_tokens)`` as an engine. Knows nothing of what happens inside the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from qwenperf.adapters.prompt import new_tokens_only
from qwenperf.decode.engine import Tokens


@dataclass(frozen=True, kw_only=True)
class CallableEngine:
    """A function from prompt [B, T] and a number of new tokens to tokens [B, new_tokens].

    ``uncached_logits`` (tokens [B, T] to logits [B, T, V]) makes it a ``ReferencedEngine``; where it is ``None``
    the engine is none, as runtime protocols count a method that is ``None`` as absent.
    """

    name: str
    call: Callable[[Any, int], Any]
    uncached_logits: Callable[[Any], jax.Array] | None = None

    def generate(self, tokens_BT: Tokens, new_tokens: int) -> jax.Array:
        """Return int32 tokens [B, new_tokens]; a prompt that the function repeats is cut off.

        Raises:
          MeasurementError: the function returned another shape.
        """
        return new_tokens_only(self.call(tokens_BT, new_tokens), tokens_BT, new_tokens, f"{self.name}()")
