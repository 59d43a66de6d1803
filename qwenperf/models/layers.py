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

from qwenperf.models.variant import PLAIN, Variant

Weights = Mapping[str, Any]
"""One module's weights, such as ``{"weight": ..., "bias": ...}``, or modules by name."""


def embed(tokens_BT: Int[Array, "B T"], weights: Weights) -> Float[Array, "B T D"]:
    """Return a table's row for each token or position; they are in range (engines check that on the host)."""
    rows_BTD: jax.Array = weights["weight"].at[tokens_BT].get(mode="promise_in_bounds")
    return rows_BTD


def rms_norm(x: Float[Array, "*rows D"], weights: Weights, eps: float) -> Float[Array, "*rows D"]:
    """Scale rows to unit root mean square in f32, then by the weight in the dtype of the input.

    Source: https://arxiv.org/abs/1910.07467; the order of the casts is that of transformers.
    """
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normal = (wide * lax.rsqrt(mean_square + eps)).astype(x.dtype)
    return normal * _for_rows(weights["weight"], x)


def layer_norm(x: Float[Array, "*rows D"], weights: Weights, eps: float) -> Float[Array, "*rows D"]:
    """Shift rows to mean 0, scale them to variance 1, then weight and bias; all in f32, rounded once.

    Source: https://arxiv.org/abs/1607.06450.
    """
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    normal = centred * lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + eps)
    weight, bias = (_for_rows(weights[name].astype(jnp.float32), x) for name in ("weight", "bias"))
    return (normal * weight + bias).astype(x.dtype)


def linear(hidden_BTI: Float[Array, "B T I"], weights: Weights, variant: Variant = PLAIN) -> Float[Array, "B T O"]:
    """Multiply by a weight [out, in] and add the bias where there is one."""
    out_BTO = product(hidden_BTI, weights, variant)
    return out_BTO + jnp.expand_dims(weights["bias"], (0, 1)) if "bias" in weights else out_BTO


def product(
    hidden_BTI: Float[Array, "B T I"], weights: Weights, variant: Variant = PLAIN, dtype: jnp.dtype | None = None
) -> Float[Array, "B T O"]:
    """Multiply by a matrix as it is stored and as ``variant`` says; the result in ``dtype``, by default the input's."""
    del variant
    return contract_last(hidden_BTI, weights["weight"], dtype)


def contract_last(
    hidden_BTI: Float[Array, "B T I"], weight_OI: Float[Array, "O I"], dtype: jnp.dtype | None = None
) -> Float[Array, "B T O"]:
    """Contract both last axes, so that the stored [out, in] weight is read as it lies, without a transposed copy."""
    dimensions = (((hidden_BTI.ndim - 1,), (1,)), ((), ()))
    return lax.dot_general(hidden_BTI, weight_OI, dimensions, preferred_element_type=dtype)


def gated_mlp(hidden_BTD: Float[Array, "B T D"], weights: Weights, variant: Variant = PLAIN) -> Float[Array, "B T D"]:
    """Return ``down(silu(gate(x)) * up(x))``."""
    gate_BTF = jax.nn.silu(linear(hidden_BTD, weights["gate_proj"], variant))
    return linear(gate_BTF * linear(hidden_BTD, weights["up_proj"], variant), weights["down_proj"], variant)


def gelu_mlp(hidden_BTD: Float[Array, "B T D"], weights: Weights, variant: Variant = PLAIN) -> Float[Array, "B T D"]:
    """Return ``down(gelu_new(up(x)))``, the gelu by its tanh formula (https://arxiv.org/abs/1606.08415)."""
    up_BTF = jax.nn.gelu(linear(hidden_BTD, weights["up_proj"], variant), approximate=True)
    return linear(up_BTF, weights["down_proj"], variant)


def _for_rows(vector_D: Float[Array, " D"], x: Float[Array, "*rows D"]) -> Float[Array, "*ones D"]:
    return jnp.expand_dims(vector_D, tuple(range(x.ndim - 1)))
