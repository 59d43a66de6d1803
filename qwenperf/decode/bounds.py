"""What a request must keep to, checked on the host before anything runs.

On the device it is too late: an index that is out of range is clamped there, without a word.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import jax
import numpy as np

from qwenperf.decode.engine import Tokens
from qwenperf.errors import CapacityError, ConfigError, TokenError

MOST = 2**31 - 1
"""The largest size that an int32 of a program counts."""

DEFAULT_CAPACITY = 256
"""Positions of an engine that is built without a capacity, where the model has as many."""


def check_capacity(capacity: object, most: int) -> int:
    """Return the capacity to build with.

    Raises:
      ConfigError: not a whole number of at least 1, or more positions than the model was made for.
    """
    if capacity is None:
        return min(DEFAULT_CAPACITY, most)
    if isinstance(capacity, bool) or not isinstance(capacity, Integral) or int(capacity) < 1:
        raise ConfigError(f"capacity is {capacity!r}, which is not a whole number of at least 1.")
    if int(capacity) > most:
        raise ConfigError(f"capacity {capacity} is more than the model's max_position_embeddings {most}.")
    return int(capacity)


def check_prompt(tokens_BT: Tokens, vocab_size: int) -> np.ndarray:
    """Return the prompt as int32 [B, T].

    Raises:
      TokenError: another rank or dtype, rows of different lengths, an empty prompt, or a token outside the vocabulary;
        says which.
    """
    tokens = _as_array(tokens_BT)
    _check_kind(tokens, rank=2, axes="[batch, length]")
    if tokens.size == 0:
        raise TokenError(f"the prompt is empty: its shape is {tokens.shape}.")
    _check_range(tokens, vocab_size)
    return tokens.astype(np.int32)


def check_step_tokens(tokens_B: Tokens, batch: int, vocab_size: int) -> Tokens:
    """Return one token a row as int32 [B]; values already on the device are not waited for, so not read.

    Raises:
      TokenError: another rank, dtype or batch, or a token outside the vocabulary.
    """
    tokens = tokens_B if isinstance(tokens_B, jax.Array) else _as_array(tokens_B)
    _check_kind(tokens, rank=1, axes="[batch]")
    if tokens.shape[0] != batch:
        raise TokenError(f"{tokens.shape[0]} tokens for a state of {batch} rows.")
    if isinstance(tokens, np.ndarray):
        _check_range(tokens, vocab_size)
    return tokens.astype(np.int32) if tokens.dtype != np.int32 else tokens


def check_request(prompt_length: int, new_tokens: object, capacity: int) -> None:
    """Refuse a request that does not fit.

    Raises:
      TokenError: fewer than 1 new token asked for.
      CapacityError: prompt and new tokens need more positions than there are.
    """
    if isinstance(new_tokens, bool) or not isinstance(new_tokens, (int, np.integer)) or new_tokens < 1:
        raise TokenError(f"new_tokens is {new_tokens!r}, which is not a whole number of at least 1.")
    if prompt_length + new_tokens > capacity:
        raise CapacityError(
            f"a prompt of {prompt_length} and {new_tokens} new tokens need {prompt_length + new_tokens} positions; "
            f"the capacity is {capacity}."
        )


def check_workload(batch: Any, prompt_length: Any, new_tokens: Any, capacity: int) -> None:
    """Refuse sizes of requests that are none, or do not fit: an empty batch would compile to programs of nothing.

    Raises:
      TokenError, CapacityError: as ``check_request``.
      ConfigError: a batch or a prompt's length that is not a whole number of at least 1.
    """
    for name, size in (("batch", batch), ("prompt_length", prompt_length)):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= MOST:
            raise ConfigError(f"{name} is {size!r}, which is not a whole number of at least 1 that fits 31 bits.")
    check_request(prompt_length, new_tokens, capacity)


def _as_array(tokens: Any) -> np.ndarray:
    try:
        return np.asarray(tokens)
    except ValueError as error:
        raise TokenError(
            "tokens have rows of different lengths.", advice="An engine takes rows of one length, a generator any."
        ) from error


def _check_kind(tokens: Tokens, *, rank: int, axes: str) -> None:
    if tokens.ndim != rank:
        raise TokenError(f"tokens have shape {tuple(tokens.shape)}; expected {axes}.")
    # An empty list has numpy's default dtype: say that it is empty, not that it is f64.
    if tokens.size and not np.issubdtype(tokens.dtype, np.integer):
        raise TokenError(f"tokens have dtype {tokens.dtype}; expected whole numbers.")


def _check_range(tokens: np.ndarray, vocab_size: int) -> None:
    outside = np.argwhere((tokens < 0) | (tokens >= vocab_size))
    if outside.size:
        index = tuple(int(part) for part in outside[0])
        raise TokenError(f"token {int(tokens[index])} at {list(index)} is outside the vocabulary of {vocab_size}.")
