"""The small parts of a decoder layer, as pure functions over Hugging Face's weights ([out, in]) in any ``layout``.

Knows nothing of attention, positions or caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from qwenperf.models.quantized_product import quantized_product, quantized_rows
from qwenperf.models.variant import PLAIN, Variant

Weights = Mapping[str, Any]
"""One module's weights, such as ``{"weight": ..., "bias": ...}``, or modules by name."""


def embed(tokens_BT: Int[Array, "B T"], weights: Weights) -> Float[Array, "B T D"]:
    """Return a table's row for each token or position; they are in range (engines check that on the host)."""
    if "weight_q" in weights:
        return quantized_rows(tokens_BT, weights)
    if "weight_io" in weights:
        columns_DBT = weights["weight_io"].at[:, tokens_BT].get(mode="promise_in_bounds")
        return jnp.moveaxis(columns_DBT, 0, -1)
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
    length = hidden_BTI.shape[1]
    rows_BTI = _with_rows(hidden_BTI, variant.rows)
    out_BTO = _multiply(rows_BTI, weights, variant, dtype)
    return out_BTO if rows_BTI is hidden_BTI else out_BTO[:, :length]


def apart(x: Float[Array, "*any"], variant: Variant) -> Float[Array, "*any"]:
    """Return ``x``; where ``variant`` wants barriers, as something that is computed by itself, fused with nothing."""
    return lax.optimization_barrier(x) if variant.fusion == "barriers" else x


def matmul_precision(variant: Variant) -> AbstractContextManager[Any]:
    """Return the context in which products are traced; JAX's own default, which users may set, is left alone."""
    return nullcontext() if variant.precision == "default" else jax.default_matmul_precision(variant.precision)


def _with_rows(hidden_BTI: Float[Array, "B T I"], rows: int) -> Float[Array, "B T2 I"]:
    """Append zeros to each sequence until there are ``rows`` rows in all."""
    batch, length, _ = hidden_BTI.shape
    missing = -(-rows // batch) - length
    return jnp.pad(hidden_BTI, ((0, 0), (0, missing), (0, 0))) if missing > 0 else hidden_BTI


def _multiply(
    hidden_BTI: Float[Array, "B T I"], weights: Weights, variant: Variant, dtype: jnp.dtype | None
) -> Float[Array, "B T O"]:
    if "weight_q" in weights:
        return quantized_product(hidden_BTI, weights, variant.activations, dtype)
    if "weight_io" in weights:
        return lax.dot_general(hidden_BTI, weights["weight_io"], (((2,), (0,)), ((), ())), preferred_element_type=dtype)
    weight_OI = weights["weight"]
    if variant.contraction == "einsum":
        return jnp.einsum("bti,oi->bto", hidden_BTI, weight_OI, preferred_element_type=dtype)
    if variant.contraction == "batched":
        weight_BOI = jnp.broadcast_to(jnp.expand_dims(weight_OI, 0), (len(hidden_BTI), *weight_OI.shape))
        return lax.dot_general(hidden_BTI, weight_BOI, (((2,), (2,)), ((0,), (0,))), preferred_element_type=dtype)
    return contract_last(hidden_BTI, weight_OI, dtype)


def contract_last(
    hidden_BTI: Float[Array, "B T I"], weight_OI: Float[Array, "O I"], dtype: jnp.dtype | None = None
) -> Float[Array, "B T O"]:
    """Contract both last axes, so that the stored [out, in] weight is read as it lies, without a transposed copy."""
    dimensions = (((hidden_BTI.ndim - 1,), (1,)), ((), ()))
    return lax.dot_general(hidden_BTI, weight_OI, dimensions, preferred_element_type=dtype)


def gated_mlp(hidden_BTD: Float[Array, "B T D"], weights: Weights, variant: Variant = PLAIN) -> Float[Array, "B T D"]:
    """Return ``down(silu(gate(x)) * up(x))``."""
    if "gate_up_proj" in weights:
        gate_BTF, up_BTF = jnp.split(linear(hidden_BTD, weights["gate_up_proj"], variant), 2, axis=-1)
    else:
        gate_BTF, up_BTF = (linear(hidden_BTD, weights[name], variant) for name in ("gate_proj", "up_proj"))
    return linear(jax.nn.silu(gate_BTF) * up_BTF, weights["down_proj"], variant)


def gelu_mlp(hidden_BTD: Float[Array, "B T D"], weights: Weights, variant: Variant = PLAIN) -> Float[Array, "B T D"]:
    """Return ``down(gelu_new(up(x)))``, the gelu by its tanh formula (https://arxiv.org/abs/1606.08415)."""
    up_BTF = jax.nn.gelu(linear(hidden_BTD, weights["up_proj"], variant), approximate=True)
    return linear(up_BTF, weights["down_proj"], variant)


def _for_rows(vector_D: Float[Array, " D"], x: Float[Array, "*rows D"]) -> Float[Array, "*ones D"]:
    return jnp.expand_dims(vector_D, tuple(range(x.ndim - 1)))
