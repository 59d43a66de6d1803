"""How surprised a model is by a text: the one number that says whether another form of its weights is as good."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from qwenperf.errors import TokenError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import Params, forward, unembed, whole_sequence
from qwenperf.models.variant import PLAIN, Variant


def perplexity(params: Params, config: ModelConfig, tokens_BT: np.ndarray, *, variant: Variant = PLAIN) -> float:
    """Return exp of the mean negative log probability of each token but the first of a row, given those before it.

    One uncached forward pass; compiles for each shape of ``tokens_BT``.

    Args:
      params: the weights, as any engine has them: plain, fused, stacked or quantised.
      config: their shapes and constants.
      tokens_BT: token ids.
      variant: how the forward pass is written, such as with activations rounded to int8.

    Raises:
      TokenError: no row of at least 2 tokens, a token outside the vocabulary, or more tokens than learned positions.
    """
    tokens_BT = check_text(tokens_BT, config.vocab_size)
    config.check_positions(tokens_BT.shape[1])
    surprise_Bn = _surprise(params, jax.device_put(tokens_BT.astype(np.int32)), config=config, variant=variant)
    return math.exp(float(np.mean(surprise_Bn)))


def check_text(tokens_BT: np.ndarray, vocab_size: int) -> np.ndarray:
    """Return ``tokens_BT`` as an array of which a perplexity is defined.

    Raises:
      TokenError: no row of at least 2 tokens, or a token outside the vocabulary.
    """
    tokens_BT = check_rows(tokens_BT)
    if tokens_BT.min() < 0 or tokens_BT.max() >= vocab_size:
        raise TokenError(
            f"tokens from {tokens_BT.min()} to {tokens_BT.max()} for perplexity; the vocabulary is {vocab_size}."
        )
    return tokens_BT


def check_rows(tokens_BT: np.ndarray) -> np.ndarray:
    """Return ``tokens_BT`` as an array of rows of at least 2 tokens.

    Raises:
      TokenError: it is none.
    """
    tokens_BT = np.asarray(tokens_BT)
    if tokens_BT.ndim != 2 or not len(tokens_BT) or tokens_BT.shape[1] < 2:
        raise TokenError(f"perplexity needs rows of at least 2 tokens; the shape is {tokens_BT.shape}.")
    if not np.issubdtype(tokens_BT.dtype, np.integer):
        raise TokenError(f"perplexity needs whole numbers; the tokens are {tokens_BT.dtype}.")
    return tokens_BT


@partial(jax.jit, static_argnames=("config", "variant"))
def _surprise(
    params: Params, tokens_BT: Int[Array, "B T"], *, config: ModelConfig, variant: Variant
) -> Float[Array, "B n"]:
    positions_BT, mask_BTT = whole_sequence(tokens_BT)
    hidden_BTD, _ = forward(params, config, tokens_BT, positions_BT=positions_BT, mask_BTS=mask_BTT, variant=variant)
    log_probability_BnV = jax.nn.log_softmax(unembed(params, config, hidden_BTD[:, :-1], variant), axis=-1)
    found_Bn1 = jnp.take_along_axis(log_probability_BnV, jnp.expand_dims(tokens_BT[:, 1:], -1), axis=-1)
    return -jnp.squeeze(found_Bn1, -1)
