"""How surprised an engine is by a text, token by token: whatever it approximates counts, its cache included."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from qwenperf.decode.engine import StepEngine
from qwenperf.models.perplexity import check_rows, check_text


def engine_perplexity(engine: StepEngine, tokens_BT: np.ndarray) -> float:
    """Return exp of the mean negative log probability of each token but the first of a row, given those before it.

    The first token is the prompt, every other one a decode step, so that keys and values are read from the engine's
    cache. Works with anybody's engine; needs a capacity of one position less than the text has tokens.

    Raises:
      TokenError: no row of at least 2 tokens, or a token outside the vocabulary.
    """
    rows_BT = check_rows(tokens_BT)
    logits_BV, state = engine.prefill(rows_BT[:, :1].astype(np.int32))
    # What int32 does not hold is no token: checked before it is cut to one.
    tokens_BT = check_text(rows_BT, logits_BV.shape[-1]).astype(np.int32)
    last = tokens_BT.shape[1] - 1
    surprise = []
    for index in range(1, last + 1):
        surprise.append(jax.device_get(_surprise(logits_BV, tokens_BT[:, index])))
        if index < last:
            logits_BV, state = engine.decode_step(tokens_BT[:, index], state)
    return math.exp(float(np.mean(surprise)))


@jax.jit
def _surprise(logits_BV: Float[Array, "B V"], tokens_B: Int[Array, " B"]) -> Float[Array, " B"]:
    found_B1 = jnp.take_along_axis(logits_BV.astype(jnp.float32), jnp.expand_dims(tokens_B, 1), axis=1)
    return jax.nn.logsumexp(logits_BV.astype(jnp.float32), axis=1) - jnp.squeeze(found_B1, 1)
