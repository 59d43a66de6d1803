"""What a generation request may ask for, checked on the host and made data before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.decode.bounds import check_request
from qwenperf.decode.engine import Tokens
from qwenperf.decode.prompts import Prompts, align, widen
from qwenperf.decode.rows import Request
from qwenperf.decode.sampling import GREEDY, Sampling, rules_of
from qwenperf.errors import ConfigError, TokenError, UnknownNameError

Stops = Tokens | Iterable[int] | Sequence[Iterable[int]]
"""Tokens that end a row, the same for all rows or a list for each; arrays will do."""

OPTIONS = ("keys", "sampling", "stop", "pad", "attention_mask")
"""What a request may ask for besides its prompts and how many tokens."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What requests have to keep to: the vocabulary, the positions there are, and widths of prompts.

    ``stop`` are the tokens that end a row where a request does not say.
    """

    vocab_size: int
    capacity: int
    bucket: int = 0
    stop: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A good request: prompts int32 [B, T] at the right ends of their rows, and all else as data.

    ``may_end`` says whether there is a token that ends a row, and so whether the host has to look.
    """

    tokens: np.ndarray
    data: Request
    new_tokens: int
    may_end: bool


def check(
    prompts: Prompts,
    new_tokens: int,
    limits: Limits,
    /,
    *,
    keys: jax.Array | None = None,
    sampling: Sampling | Sequence[Sampling] = GREEDY,
    stop: Stops | None = None,
    pad: int = 0,
    attention_mask: Tokens | None = None,
    **unknown: Any,
) -> Checked:
    """Return a request that can be run.

    Raises:
      UnknownNameError: an option that there is not; offers the nearest.
      TokenError: prompts, stop tokens or padding that the model does not know.
      CapacityError: the longest prompt and the new tokens do not fit.
      ConfigError: rules or keys that are none, or not one for each row.
    """
    for name in unknown:
        raise UnknownNameError("request option", name, OPTIONS)
    aligned = align(prompts, attention_mask, limits.vocab_size)
    batch, longest = aligned.tokens.shape
    check_request(longest, new_tokens, limits.capacity)
    _check_token(pad, "pad", limits.vocab_size)
    samplings = _samplings(sampling, batch)
    stops_BV = _stops(limits.stop if stop is None else stop, batch, limits.vocab_size)
    keys_B = _keys(keys, batch, needed=any(one.temperature > 0 for one in samplings))
    aligned = widen(aligned, _width(longest, new_tokens, limits))
    data = Request(
        pads=aligned.pads,
        keys=keys_B,
        rules=rules_of(samplings),
        stops=stops_BV,
        pad=np.asarray(pad, np.int32),
        most=np.asarray(new_tokens, np.int32),
    )
    return Checked(tokens=aligned.tokens, data=data, new_tokens=int(new_tokens), may_end=bool(stops_BV.any()))


def _width(longest: int, new_tokens: int, limits: Limits) -> int:
    """Return a multiple of the bucket, where the new tokens still fit behind it."""
    width = -(-longest // limits.bucket) * limits.bucket if limits.bucket else longest
    return width if width + new_tokens <= limits.capacity else longest


def _samplings(sampling: Any, batch: int) -> list[Sampling]:
    given = [sampling] * batch if isinstance(sampling, Sampling) else sampling
    if not isinstance(given, Sequence) or not all(isinstance(one, Sampling) for one in given):
        raise ConfigError(f"sampling is {sampling!r}.", advice="Give a Sampling, or a list of one for each prompt.")
    if len(given) != batch:
        raise ConfigError(f"there are {len(given)} samplings for {batch} prompts.")
    return list(given)


def _keys(keys: Any, batch: int, *, needed: bool) -> jax.Array:
    """Return one threefry key a row: of other kinds a row's numbers depend on the batch around it."""
    if keys is None and needed:
        raise ConfigError("sampling needs keys.", advice=_ADVICE.format(batch=batch))
    if keys is None:
        return _unused_keys(batch)
    if not isinstance(keys, jax.Array) or not jnp.issubdtype(keys.dtype, jax.dtypes.prng_key):
        seen = f"{keys.dtype}{list(keys.shape)}" if hasattr(keys, "dtype") else repr(keys)
        raise ConfigError(f"keys are {seen}, which are no typed keys.", advice=_ADVICE.format(batch=batch))
    if str(jax.random.key_impl(keys)) != "threefry2x32":
        raise ConfigError(
            f"keys are of kind {jax.random.key_impl(keys)}: their numbers depend on the place in a batch.",
            advice='Make them with jax.random.key(seed, impl="threefry2x32").',
        )
    if keys.shape != (batch,):
        raise ConfigError(f"keys have shape {keys.shape} for {batch} prompts.", advice=_ADVICE.format(batch=batch))
    checked: jax.Array = keys
    return checked


_ADVICE = "Give one key a prompt: jax.random.split(jax.random.key(seed), {batch})."


def _unused_keys(batch: int) -> jax.Array:
    data: jax.Array = jax.device_put(np.zeros((batch, 2), np.uint32))
    keys_B: jax.Array = jax.random.wrap_key_data(data, impl="threefry2x32")
    return keys_B


def _stops(stop: Any, batch: int, vocab_size: int) -> np.ndarray:
    """Return bool [B, V]: where a row ends."""
    stop = _plain(stop)
    if isinstance(stop, (str, bytes, Integral)) or not isinstance(stop, Iterable):
        raise TokenError(f"stop is {stop!r}; expected token ids, or a list of them for each prompt.")
    given = [_plain(one) for one in stop]
    rows = [given] * batch
    if given and all(isinstance(one, Iterable) and not isinstance(one, (str, bytes)) for one in given):
        rows = [list(one) for one in given]
    if len(rows) != batch:
        raise TokenError(f"there are {len(rows)} lists of stop tokens for {batch} prompts.")
    stops_BV = np.zeros((batch, vocab_size), np.bool_)
    for marks, tokens in zip(stops_BV, rows, strict=True):
        for token in map(_plain, tokens):
            _check_token(token, "stop", vocab_size)
            marks[int(token)] = True
    return stops_BV


def _plain(stop: Any) -> Any:
    """Return an array of whole numbers as lists or a number, and anything else as it is."""
    if not isinstance(stop, (np.ndarray, jax.Array)):
        return stop
    if stop.size and not jnp.issubdtype(stop.dtype, np.integer):
        raise TokenError(f"stop is an array of {stop.dtype}; expected token ids.")
    return np.asarray(stop).tolist()


def _check_token(token: Any, what: str, vocab_size: int) -> None:
    if isinstance(token, bool) or not isinstance(token, Integral):
        raise TokenError(f"{what} token {token!r} is no token id.")
    if not 0 <= int(token) < vocab_size:
        raise TokenError(f"{what} token {int(token)} is outside the vocabulary of {vocab_size}.")
