"""What people hand over as a prompt, as int32 tokens [B, T]; and what their engines hand back, as new tokens.

Knows shapes only: what a model thinks of a token is the engine's business.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.errors import MeasurementError, TokenError

_INT32 = np.iinfo(np.int32)


def as_tokens(prompt: Any) -> np.ndarray:
    """Return ``prompt`` as int32 [B, T]; one row of tokens becomes a batch of one.

    Raises:
      TokenError: no tokens, rows of different lengths, something other than whole numbers, or numbers beyond int32.
    """
    try:
        tokens = np.asarray(prompt)
    except ValueError as error:
        raise TokenError("the prompt's rows have different lengths.", advice="Give rows of one length.") from error
    if tokens.ndim == 1:
        tokens = tokens[None]
    if tokens.ndim != 2 or tokens.size == 0 or not np.issubdtype(tokens.dtype, np.integer):
        raise TokenError(
            f"the prompt is {tokens.dtype}{list(tokens.shape)}.",
            advice="Give whole numbers of shape [T] or [B, T], at least one a row.",
        )
    least, most = int(tokens.min()), int(tokens.max())
    if least < _INT32.min or most > _INT32.max:
        beyond = most if most > _INT32.max else least
        raise TokenError(
            f"the prompt has token {beyond}, which int32 does not hold.", advice="Give token ids of a vocabulary."
        )
    return tokens.astype(np.int32)


def new_tokens_only(result: Any, prompt_BT: Any, new_tokens: int, source: str) -> jax.Array:
    """Return the [B, new_tokens] tokens of ``result``, which may repeat the prompt in front of them.

    Raises:
      MeasurementError: ``result`` has another shape, or is no whole numbers that int32 holds; names ``source``.
    """
    batch, length = np.shape(prompt_BT)
    tokens = _returned_tokens(result, source)
    shape = tokens.shape
    if shape == (batch, length + new_tokens):
        return tokens[:, length:]
    if shape == (batch, new_tokens):
        return tokens
    if batch == 1 and shape in ((new_tokens,), (length + new_tokens,)):
        return new_tokens_only(tokens[None], prompt_BT, new_tokens, source)
    raise MeasurementError(
        f"{source} returned shape {list(shape)} for {batch} prompt(s) of {length} and {new_tokens} new tokens.",
        advice=f"Return the new tokens, [{batch}, {new_tokens}], or prompt and new tokens.",
    )


def _returned_tokens(result: Any, source: str) -> jax.Array:
    """Return an engine's tokens on the device; of what is there already only the type is looked at: clocks run."""
    if isinstance(result, jax.Array):
        seen: Any = result
    else:
        try:
            seen = np.asarray(result)
        except ValueError as error:
            raise MeasurementError(f"{source} returned rows of different lengths.", advice="Pad them.") from error
    if seen.size and not np.issubdtype(seen.dtype, np.integer):
        advice = "Return token ids: what is chosen of logits or probabilities, and not these."
        raise MeasurementError(
            f"{source} returned {seen.dtype}{list(seen.shape)}, and tokens are whole numbers.", advice=advice
        )
    if isinstance(seen, np.ndarray) and seen.size and not _INT32.min <= seen.min() <= seen.max() <= _INT32.max:
        beyond = seen.max() if seen.max() > _INT32.max else seen.min()
        raise MeasurementError(f"{source} returned token {beyond}, which int32 does not hold.")
    return jnp.asarray(seen)


def logits_and_state(result: Any, source: str) -> tuple[Any, Any]:
    """Return the two parts of what a prefill or a decode step returned.

    Raises:
      MeasurementError: anything but a pair; names ``source``.
    """
    if isinstance(result, tuple | list) and len(result) == 2:
        return result[0], result[1]
    sized = isinstance(result, tuple | list)
    seen = f"{len(result)} values" if sized else "None" if result is None else f"a {type(result).__name__}"
    raise MeasurementError(f"{source} returned {seen}.", advice="Return (logits, state).")


def last_logits(logits: jax.Array, source: str) -> jax.Array:
    """Return logits [B, V] of the last position from [B, V] or [B, T, V].

    Raises:
      MeasurementError: any other rank; names ``source``.
    """
    if np.ndim(logits) == 3:
        return logits[:, -1]
    if np.ndim(logits) != 2:
        raise MeasurementError(
            f"{source} returned logits of shape {list(np.shape(logits))}.", advice="Return [B, V] or [B, T, V]."
        )
    return logits


@jax.jit
def greedy(logits_BV: jax.Array) -> jax.Array:
    """Return the int32 token [B] of the largest logit, chosen on the device."""
    return jnp.argmax(logits_BV, axis=-1).astype(jnp.int32)
