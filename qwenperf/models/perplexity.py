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
from qwenperf.models.decoder import Params, logits


def perplexity(params: Params, config: ModelConfig, tokens_BT: np.ndarray) -> float:
    """Return exp of the mean negative log probability of each token but the first of a row, given those before it.

    One uncached forward pass; compiles for each shape of ``tokens_BT``.

    Raises:
      TokenError: no row of at least 2 tokens, or a token outside the vocabulary.
    """
    tokens_BT = np.asarray(tokens_BT)
    if tokens_BT.ndim != 2 or not len(tokens_BT) or tokens_BT.shape[1] < 2:
        raise TokenError(f"perplexity needs rows of at least 2 tokens; the shape is {tokens_BT.shape}.")
    if tokens_BT.min() < 0 or tokens_BT.max() >= config.vocab_size:
        raise TokenError(
            f"tokens from {tokens_BT.min()} to {tokens_BT.max()} for perplexity; the vocabulary is {config.vocab_size}."
        )
    return math.exp(float(np.mean(_surprise(params, jax.device_put(tokens_BT.astype(np.int32)), config=config))))


@partial(jax.jit, static_argnames="config")
def _surprise(params: Params, tokens_BT: Int[Array, "B T"], *, config: ModelConfig) -> Float[Array, "B n"]:
    log_probability_BTV = jax.nn.log_softmax(logits(params, config, tokens_BT)[:, :-1], axis=-1)
    found_BT1 = jnp.take_along_axis(log_probability_BTV, jnp.expand_dims(tokens_BT[:, 1:], -1), axis=-1)
    return -jnp.squeeze(found_BT1, -1)
