"""Sampling: from logits to tokens, by rules and keys that are data, so that other ones run the same program.

    logits -> / temperature -> top-k -> top-p -> min-p -> a draw by the row's own key

A row's draw depends on its logits, its rules, its key and its position in its own row, on nothing else: the same
key gives the same tokens at any place in a batch of any size. Knows nothing of models and loops.

Sources: top-k https://arxiv.org/abs/1805.04833, top-p https://arxiv.org/abs/1904.09751, min-p
https://arxiv.org/abs/2407.01082; the draw is the maximum of logits plus Gumbel noise, https://arxiv.org/abs/1411.0030.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from qwenperf.errors import ConfigError

_TINY, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen; equals of the last token that a filter keeps are kept too.

    Attributes:
      temperature: logits are divided by it, in f32; 0 takes the most probable token (greedy).
      top_k: keep the k most probable tokens; 0 keeps all.
      top_p: keep the fewest most probable tokens whose probabilities, after top-k, add up to this; 1 keeps all.
      min_p: keep tokens that are at least this times as probable as the most probable one; 0 keeps all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no rule.

        Raises:
          ConfigError: names the field, its value and what it may be.
        """
        warm = 0 <= _number(self.temperature) <= _LARGEST
        _check("temperature", self.temperature, warm, f"a number from 0 to {_LARGEST:.2g}")
        _check("top_k", self.top_k, _whole(self.top_k) and self.top_k >= 0, "a whole number from 0")
        _check("top_p", self.top_p, 0 < _number(self.top_p) <= 1, "above 0 and at most 1")
        _check("min_p", self.min_p, 0 <= _number(self.min_p) <= 1, "from 0 to 1")


class Rules(NamedTuple):
    """The sampling of each row, as data."""

    temperature: Float[Array | np.ndarray, " B"]
    top_k: Int[Array | np.ndarray, " B"]
    top_p: Float[Array | np.ndarray, " B"]
    min_p: Float[Array | np.ndarray, " B"]


def rules_of(samplings: Sequence[Sampling]) -> Rules:
    """Return one row of rules for each of ``samplings``, on the host."""
    return Rules(
        temperature=np.array([one.temperature for one in samplings], np.float32),
        # More than any vocabulary has is all of it, and fits.
        top_k=np.array([min(one.top_k, np.iinfo(np.int32).max) for one in samplings], np.int32),
        top_p=np.array([one.top_p for one in samplings], np.float32),
        min_p=np.array([one.min_p for one in samplings], np.float32),
    )


def draw(
    logits_BV: Float[Array, "B V"], keys_B: Array, positions_B: Int[Array, " B"], rules: Rules
) -> Int[Array, " B"]:
    """Return one token a row.

    Args:
      logits_BV: of the tokens to be drawn.
      keys_B: each row's own key, the same for all its tokens.
      positions_B: the drawn token's position in its own row, padding not counted.
      rules: how each row is sampled; a temperature of 0 takes the first of the largest logits.
    """
    greedy_B = lax.argmax(logits_BV, 1, jnp.int32)

    def sampled() -> Int[Array, " B"]:
        folded_B = jax.vmap(jax.random.fold_in)(keys_B, positions_B)
        drawn_B = jax.vmap(jax.random.categorical)(folded_B, filtered(logits_BV, rules))
        return jnp.where(rules.temperature > 0, drawn_B.astype(jnp.int32), greedy_B)

    # Rows that are all greedy pay for no noise and no sort.
    token_B: jax.Array = lax.cond(jnp.any(rules.temperature > 0), sampled, lambda: greedy_B)
    return token_B


def filtered(logits_BV: Float[Array, "B V"], rules: Rules) -> Float[Array, "B V"]:
    """Return f32 logits over the temperature, 0 at the largest and -inf at tokens that cannot be drawn."""
    wide_BV = logits_BV.astype(jnp.float32)
    largest_B1 = jnp.max(wide_BV, axis=-1, keepdims=True)
    # An infinite logit is how a token is forced, and inf - inf is no number.
    shifted_BV = jnp.where(wide_BV == largest_B1, 0.0, wide_BV - largest_B1)
    # A subnormal temperature would be flushed to 0, and 0 / 0 is no number.
    scaled_BV = shifted_BV / _column(jnp.maximum(rules.temperature, _TINY))
    everything = jnp.full((logits_BV.shape[0], 1), -jnp.inf, jnp.float32)
    sorts = jnp.any((rules.top_k > 0) | (rules.top_p < 1))
    lowest_B1 = lax.cond(sorts, lambda: _lowest_kept(scaled_BV, rules), lambda: everything)
    kept_BV = (scaled_BV >= lowest_B1) & (jnp.exp(scaled_BV) >= _column(rules.min_p))
    return jnp.where(kept_BV, scaled_BV, -jnp.inf)


def _lowest_kept(scaled_BV: Float[Array, "B V"], rules: Rules) -> Float[Array, "B 1"]:
    """Return the smallest logit that top-k and top-p keep; at least the largest is kept."""
    sorted_BV = jnp.sort(scaled_BV, axis=-1, descending=True)
    rank_1V = jnp.expand_dims(jnp.arange(sorted_BV.shape[1], dtype=jnp.int32), 0)
    first_BV: Bool[Array, "B V"] = (rank_1V < _column(rules.top_k)) | _column(rules.top_k == 0)
    mass_BV = jnp.where(first_BV, jnp.exp(sorted_BV), 0.0)
    probability_BV = mass_BV / jnp.sum(mass_BV, axis=-1, keepdims=True)
    before_BV = jnp.cumsum(probability_BV, axis=-1) - probability_BV
    # The sum of all may round to 1 before its end: 1 means all, whatever was added up.
    enough_BV = (before_BV < _column(rules.top_p)) | _column(rules.top_p >= 1)
    kept_B1 = jnp.sum(first_BV & enough_BV, axis=-1, keepdims=True, dtype=jnp.int32)
    # A top_p that f32 rounds to 0 keeps the largest too.
    return jnp.take_along_axis(sorted_BV, jnp.maximum(kept_B1 - 1, 0), axis=1)


def _column(row_B: Array | np.ndarray) -> Array:
    return jnp.expand_dims(row_B, 1)


def _number(value: object) -> float:
    """Return ``value`` as a float; what is no number, or too large for one, becomes NaN, which is in no range."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _check(name: str, value: object, good: bool, expected: str) -> None:  # noqa: FBT001  (what was found out)
    if not good:
        raise ConfigError(f"sampling: {name} is {value!r}, which is not {expected}.")


GREEDY = Sampling(temperature=0.0)
"""The most probable token, always."""
