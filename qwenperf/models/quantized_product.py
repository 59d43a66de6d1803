"""Products with quantised matrices, and rows of quantised tables. What such a matrix holds is said in ``quantize``.

Two ways: inputs as they are, times the matrix in their dtype; or inputs rounded to int8 a row, int8 times int8 summed
in int32, and scaled once. On CPU the first writes a copy of the matrix in the inputs' dtype in every call, so that it
saves memory that is held and none that is read; the second reads int8 as it lies from two rows on (``rows=2``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from qwenperf.models.quantize import GROUP, dequantize, whole_values
from qwenperf.models.scaled import quantize_rows

Weights = Mapping[str, Any]
_MOST_ROWS_IN_GROUPS = 32


def quantized_product(
    hidden_BTI: Float[Array, "B T I"], weights: Weights, activations: str, dtype: Any = None
) -> Float[Array, "B T O"]:
    """Multiply by a quantised matrix; the result in ``dtype``, by default the input's."""
    rows_NI = hidden_BTI.reshape(-1, hidden_BTI.shape[-1])
    out_NO = _from_int8_rows(rows_NI, weights) if activations == "int8" else _from_rows(rows_NI, weights)
    return out_NO.astype(dtype or hidden_BTI.dtype).reshape(*hidden_BTI.shape[:2], -1)


def quantized_rows(tokens_BT: Int[Array, "B T"], weights: Weights) -> Float[Array, "B T D"]:
    """Return a quantised table's row for each token, in f32; only those rows are dequantised."""
    table = {name: weights[name] for name in ("weight_q", "scale", "offset") if name in weights}
    axis = weights["scale"].ndim - 1
    flat = tokens_BT.reshape(-1)
    rows = {name: jnp.take(value, flat, axis=axis, mode="clip") for name, value in table.items()}
    return dequantize(rows).reshape(*tokens_BT.shape, -1)


def _from_rows(rows_NI: Float[Array, "N I"], weights: Weights) -> Float[Array, "N O"]:
    if weights["scale"].ndim == 1:
        # A scale an output can wait for the sum, and int8 is exact in every dtype.
        out_NO = _contract(rows_NI, weights["weight_q"].astype(rows_NI.dtype), jnp.float32)
        return out_NO * jnp.expand_dims(weights["scale"], 0)
    return _contract(rows_NI, dequantize(weights).astype(rows_NI.dtype), jnp.float32)


def _from_int8_rows(rows_NI: Float[Array, "N I"], weights: Weights) -> Float[Array, "N O"]:
    whole_NI, row_scale_N = quantize_rows(rows_NI)
    row_scale_N1 = jnp.expand_dims(row_scale_N, 1)
    if weights["scale"].ndim == 1:
        sum_NO = _contract(whole_NI, weights["weight_q"], jnp.int32)
        return sum_NO.astype(jnp.float32) * row_scale_N1 * jnp.expand_dims(weights["scale"], 0)
    if len(rows_NI) > _MOST_ROWS_IN_GROUPS:
        # The sums of every group would be larger than the matrix. In f32 the same products come out to rounding.
        return _contract(whole_NI.astype(jnp.float32), dequantize(weights), jnp.float32) * row_scale_N1
    return _sum_of_groups(whole_NI, weights) * row_scale_N1


def _sum_of_groups(whole_NI: Int[Array, "N I"], weights: Weights) -> Float[Array, "N O"]:
    whole_NGI = whole_NI.reshape(len(whole_NI), -1, GROUP)
    sum_GNO = lax.dot_general(
        whole_NGI, whole_values(weights["weight_q"]), (((2,), (2,)), ((1,), (0,))), preferred_element_type=jnp.int32
    )
    out_NO: jax.Array = jnp.einsum("gno,go->no", sum_GNO.astype(jnp.float32), weights["scale"].astype(jnp.float32))
    if "offset" not in weights:
        return out_NO
    group_NG = jnp.sum(whole_NGI, axis=2, dtype=jnp.int32).astype(jnp.float32)
    return out_NO + jnp.einsum("ng,go->no", group_NG, weights["offset"].astype(jnp.float32))


def _contract(rows_NI: Array, weight_OI: Array, dtype: Any) -> Array:
    return lax.dot_general(rows_NI, weight_OI, (((1,), (1,)), ((), ())), preferred_element_type=dtype)
