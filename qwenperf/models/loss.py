"""Next-token cross entropy: what a training step minimises, summed over the tokens that count. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from qwenperf.errors import TokenError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params, as_it_is, forward, unembed, whole_sequence

Mask = Int[Array, "B T"] | Bool[Array, "B T"]


class Batch(NamedTuple):
    """Rows of tokens. ``None`` masks nothing; a mask is nonzero for what is meant.

    Attributes:
      tokens: token ids, within the vocabulary.
      attention_mask: nonzero for tokens, zero for padding at either end of a row.
      loss_mask: nonzero for tokens that are learnt (an answer), zero for those that are only read (its question).
    """

    tokens: Int[Array, "B T"]
    attention_mask: Mask | None = None
    loss_mask: Mask | None = None


def make_batch(tokens: Any, config: ModelConfig, *, attention_mask: Any = None, loss_mask: Any = None) -> Batch:
    """Return a batch on the device, checked on the host: inside a jitted step nothing can be refused any more.

    Raises:
      TokenError: rows of one token or of different lengths, no whole numbers, a token outside the vocabulary, a mask
        of another shape, more tokens than learned positions, or no token that is learnt from any before it.
    """
    try:
        tokens_BT = np.asarray(tokens)
    except ValueError as error:
        raise TokenError(
            "the batch's rows have different lengths.", advice="Pad them, and say so in a mask."
        ) from error
    if tokens_BT.ndim != 2 or tokens_BT.shape[0] < 1 or tokens_BT.shape[1] < 2 or tokens_BT.dtype.kind not in "iu":
        seen = f"{tokens_BT.dtype}{list(tokens_BT.shape)}"
        raise TokenError(f"the batch is {seen}.", advice="Give whole numbers [B, T], at least 2 a row.")
    if tokens_BT.min() < 0 or tokens_BT.max() >= config.vocab_size:
        seen = f"tokens from {tokens_BT.min()} to {tokens_BT.max()}"
        raise TokenError(f"the batch has {seen}; the vocabulary has {config.vocab_size}.")
    masks = {"attention_mask": attention_mask, "loss_mask": loss_mask}
    batch = Batch(jnp.asarray(tokens_BT, jnp.int32), *(_mask(name, mask, tokens_BT) for name, mask in masks.items()))
    config.check_positions(_longest(batch))
    if not int(count_targets(batch)):
        raise TokenError("the masks leave no token to learn.", advice="Leave at least one token behind another one.")
    return batch


def summed_loss(
    params: Params, config: ModelConfig, batch: Batch, *, around: Callable[..., Any] | None = None
) -> Float[Array, ""]:
    """Return the sum over targets of the negative log probability, in f32; ``around`` is that of ``forward``."""
    positions_BT, mask_BTT = whole_sequence(batch.tokens, batch.attention_mask)
    hidden_BTD, _ = forward(
        params,
        config,
        batch.tokens,
        positions_BT=positions_BT,
        mask_BTS=mask_BTT,
        around=around or as_it_is,
    )
    # The last position predicts nothing that is known.
    logits_BTV = unembed(params, config, hidden_BTD[:, :-1])
    return jnp.sum(_surprise(logits_BTV, batch.tokens[:, 1:]) * targets(batch).astype(jnp.float32))


def targets(batch: Batch) -> Bool[Array, "B n"]:
    """Return which tokens but the first of a row are targets: meant to be learnt, and with a token before them."""
    found_Bn = jnp.ones_like(batch.tokens[:, 1:], jnp.bool_)
    if batch.attention_mask is not None:
        valid_BT = batch.attention_mask.astype(jnp.bool_)
        found_Bn = valid_BT[:, 1:] & valid_BT[:, :-1]
    if batch.loss_mask is not None:
        found_Bn &= batch.loss_mask[:, 1:].astype(jnp.bool_)
    return found_Bn


def count_targets(batch: Batch) -> Float[Array, ""]:
    """Return how many targets there are."""
    return jnp.sum(targets(batch), dtype=jnp.float32)


def _surprise(logits_BTV: Float[Array, "B n V"], tokens_BT: Int[Array, "B n"]) -> Float[Array, "B n"]:
    log_probability_BTV = jax.nn.log_softmax(logits_BTV, axis=-1)
    return -jnp.squeeze(jnp.take_along_axis(log_probability_BTV, jnp.expand_dims(tokens_BT, -1), axis=-1), -1)


def _longest(batch: Batch) -> int:
    """Return the tokens of the longest row, padding left out."""
    valid_BT = batch.attention_mask
    return batch.tokens.shape[1] if valid_BT is None else int(np.asarray(valid_BT).sum(axis=1).max())


def _mask(name: str, mask: Any, tokens_BT: np.ndarray) -> jax.Array | None:
    if mask is None:
        return None
    found = np.asarray(mask)
    if found.shape != tokens_BT.shape or found.dtype.kind not in "iub":
        seen = f"{found.dtype}{list(found.shape)}"
        raise TokenError(f"{name} is {seen}; the tokens are {list(tokens_BT.shape)}.", advice="Give 0 and 1 a token.")
    return jnp.asarray(found, jnp.bool_)
