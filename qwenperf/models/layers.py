"""The small parts of a decoder layer, as pure functions over Hugging Face's weights ([out, in]).

Knows nothing of attention, positions or caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

Weights = Mapping[str, Any]
"""One module's weights, such as ``{"weight": ..., "bias": ...}``, or modules by name."""


def embed(tokens_BT: Int[Array, "B T"], weights: Weights) -> Float[Array, "B T D"]:
    """Return the embedding row of each token; tokens are in range (engines check that on the host)."""
    rows_BTD: Array = weights["weight"].at[tokens_BT].get(mode="promise_in_bounds")
    return rows_BTD


def rms_norm(hidden_BTD: Float[Array, "B T D"], weights: Weights, eps: float) -> Float[Array, "B T D"]:
    """Scale rows to unit root mean square in f32, then by the weight in the dtype of the input.

    Source: https://arxiv.org/abs/1910.07467; the order of the casts is that of transformers.
    """
    wide_BTD = hidden_BTD.astype(jnp.float32)
    mean_square_BT1 = jnp.mean(jnp.square(wide_BTD), axis=-1, keepdims=True)
    normal_BTD = (wide_BTD * lax.rsqrt(mean_square_BT1 + eps)).astype(hidden_BTD.dtype)
    return normal_BTD * jnp.expand_dims(weights["weight"], (0, 1))


def linear(hidden_BTI: Float[Array, "B T I"], weights: Weights) -> Float[Array, "B T O"]:
    """Multiply by a weight [out, in] and add the bias where there is one."""
    out_BTO = contract_last(hidden_BTI, weights["weight"])
    return out_BTO + jnp.expand_dims(weights["bias"], (0, 1)) if "bias" in weights else out_BTO


def contract_last(
    hidden_BTI: Float[Array, "B T I"], weight_OI: Float[Array, "O I"], dtype: jnp.dtype | None = None
) -> Float[Array, "B T O"]:
    """Contract both last axes, so that the stored [out, in] weight is read as it lies, without a transposed copy."""
    dimensions = (((hidden_BTI.ndim - 1,), (1,)), ((), ()))
    return lax.dot_general(hidden_BTI, weight_OI, dimensions, preferred_element_type=dtype)


def gated_mlp(hidden_BTD: Float[Array, "B T D"], weights: Weights) -> Float[Array, "B T D"]:
    """Return ``down(silu(gate(x)) * up(x))``."""
    gate_BTF = jax.nn.silu(linear(hidden_BTD, weights["gate_proj"]))
    return linear(gate_BTF * linear(hidden_BTD, weights["up_proj"]), weights["down_proj"])
