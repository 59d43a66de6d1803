"""Weights in fewer bits: what a quantised matrix is made of, and how one is made from a plain one.

    whole rows   weight_q [O, I] int8                                scale [O] f32
    groups       weight_q [G, O, 32] int8, or [G, O, 16] uint8       scale [G, O] bf16, 4 bits also offset [G, O] bf16

A value is ``scale * q``, and ``+ offset`` where there is one. Groups come first, so that an integer product of every
group reads the weights as they lie. Of two 4-bit values in a byte the low one is 16 places before the high one.
Arrays of ``jnp.int4`` report a whole byte a value on CPU. ``quantized_product`` multiplies by
such a matrix; which matrices of a model are quantised is said here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Integer, UInt

from qwenperf.errors import ConfigError, UnknownNameError

Params = dict[str, Any]

GROUP = 32
_HIGH = GROUP // 2
_LARGEST = {8: 127, 4: 7}


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How a matrix [out, in] is quantised.

    Attributes:
      bits: 8 or 4.
      grouped: a scale for every 32 inputs of an output, or one for each output.
      offset: whether a group has an offset as well, so that its smallest and largest value are both hit.
    """

    bits: int = 8
    grouped: bool = False
    offset: bool = False

    def __post_init__(self) -> None:
        """Refuse what is not stored.

        Raises:
          ConfigError: 4 bits or offsets without groups, or another number of bits.
        """
        if self.bits not in _LARGEST or (not self.grouped and (self.bits, self.offset) != (8, False)):
            raise ConfigError(f"{self} is not known: whole rows are int8 without an offset, groups are int8 or int4.")


@dataclass(frozen=True, kw_only=True)
class Schemes:
    """How a model is quantised. Embedding and head decide about single tokens and are kept finer than layers."""

    layers: Scheme
    embedding: Scheme


_INT8, _INT8_GROUPS = Scheme(), Scheme(grouped=True)
SCHEMES: Mapping[str, Schemes] = {
    "int8": Schemes(layers=_INT8, embedding=_INT8),
    "int8-g32": Schemes(layers=_INT8_GROUPS, embedding=_INT8_GROUPS),
    "int4-g32": Schemes(layers=Scheme(bits=4, grouped=True, offset=True), embedding=_INT8_GROUPS),
}
"""By the values of the setting ``weights``."""


def quantize_params(params: Mapping[str, Any], name: str) -> Params:
    """Return the tree with its matrices quantised, one at a time; all else is the same arrays.

    Embedding, head and every matrix of the layers are; norms, biases and learned positions are not. The tree that was
    given is left as it is, and whoever drops it frees the plain matrices.

    Raises:
      UnknownNameError: no such scheme.
      ConfigError: groups of 32 do not divide a matrix's inputs.
    """
    layers = tuple(_quantize_below(layer, schemes_of(name).layers) for layer in params["layers"])
    return {**params, **quantize_tables(params, name), "layers": layers}


def quantize_tables(params: Mapping[str, Any], name: str) -> Params:
    """Return the embedding and, where there is one, the head, quantised.

    Raises:
      UnknownNameError: no such scheme.
      ConfigError: groups of 32 do not divide the inputs.
    """
    scheme = schemes_of(name).embedding
    return {table: quantize_module(params[table], scheme) for table in ("embed_tokens", "lm_head") if table in params}


def schemes_of(name: str) -> Schemes:
    """Return the schemes of a value of the setting ``weights``.

    Raises:
      UnknownNameError: no such scheme.
    """
    if name not in SCHEMES:
        raise UnknownNameError("weights", name, SCHEMES)
    return SCHEMES[name]


def quantize_module(module: Mapping[str, Any], scheme: Scheme) -> Params:
    """Return a module, such as ``{"weight": ..., "bias": ...}``, with its matrix quantised and all else as it was.

    Raises:
      ConfigError: groups of 32 do not divide the matrix's inputs.
    """
    outputs, inputs = module["weight"].shape
    if scheme.grouped and inputs % GROUP:
        raise ConfigError(
            f"a matrix of {outputs} outputs has {inputs} inputs, which groups of {GROUP} do not divide.",
            advice="Take weights=int8, which has a scale for each output.",
        )
    # Blocking bounds the memory: one matrix's f32 copy at a time.
    quantized: Params = jax.block_until_ready(quantize_matrix(module["weight"], scheme=scheme))
    return quantized | {name: value for name, value in module.items() if name != "weight"}


def _quantize_below(node: Any, scheme: Scheme) -> Any:
    if not isinstance(node, Mapping):
        return node
    if "weight" in node and node["weight"].ndim == 2:
        return quantize_module(node, scheme)
    return {name: _quantize_below(below, scheme) for name, below in node.items()}


@partial(jax.jit, static_argnames="scheme")
def quantize_matrix(weight_OI: Float[Array, "O I"], *, scheme: Scheme) -> Params:
    """Return ``weight_q``, ``scale`` and, where the scheme has one, ``offset``.

    Symmetric: scale = max |w| / (2^(bits-1) - 1), q = round(w / scale), the zero point 0
    (https://arxiv.org/abs/2004.09602, section 3.1.2). With an offset: scale = (max - min) / 15 and q from -8 to 7, the
    affine form of section 3.1.1, which is also that of GGUF's q4_1. Rounded scales are rounded up, and q is computed
    from them, so that rounding a scale clips nothing.
    """
    wide_OI = weight_OI.astype(jnp.float32)
    if scheme.grouped:
        return _quantize_groups(wide_OI.reshape(len(wide_OI), -1, GROUP).swapaxes(0, 1), scheme)
    scale_O1 = _not_zero(jnp.max(jnp.abs(wide_OI), axis=1, keepdims=True) / _LARGEST[scheme.bits])
    return {"weight_q": _whole(wide_OI / scale_O1, scheme.bits), "scale": jnp.squeeze(scale_O1, 1)}


def _quantize_groups(groups: Float[Array, "G O 32"], scheme: Scheme) -> Params:
    low, high = (reduce(groups, axis=2, keepdims=True) for reduce in (jnp.min, jnp.max))
    found = (high - low) / 15 if scheme.offset else jnp.maximum(high, -low) / _LARGEST[scheme.bits]
    scale = _not_zero(_round_up(found))
    node = {"scale": jnp.squeeze(scale.astype(jnp.bfloat16), 2)}
    if scheme.offset:
        # The offset belongs to q = 0, amid the range: there it is small, and loses little as bf16.
        # A group of one value has no range, and is its offset.
        offset = (low + jnp.where(found > 0, 8 * scale, 0)).astype(jnp.bfloat16)
        groups -= offset.astype(jnp.float32)
        node["offset"] = jnp.squeeze(offset, 2)
    whole = _whole(groups / scale, scheme.bits)
    return node | {"weight_q": _pack(whole) if scheme.bits == 4 else whole}


def dequantize(node: Mapping[str, Any]) -> Float[Array, "O I"]:
    """Return a quantised matrix [out, in] in f32."""
    values = whole_values(node["weight_q"]).astype(jnp.float32)
    scale = jnp.expand_dims(node["scale"].astype(jnp.float32), -1)
    wide = values * scale
    if "offset" in node:
        wide += jnp.expand_dims(node["offset"].astype(jnp.float32), -1)
    return wide if wide.ndim == 2 else wide.swapaxes(0, 1).reshape(wide.shape[1], -1)


def whole_values(weight_q: Integer[Array, "*packed"]) -> Int[Array, "*any"]:
    """Return the stored integers as int8: bytes of two 4-bit values are taken apart."""
    if weight_q.dtype != jnp.uint8:
        return weight_q
    halves = (weight_q & jnp.uint8(15), weight_q >> jnp.uint8(4))
    signed: jax.Array = jnp.concatenate(halves, axis=-1).astype(jnp.int8) - jnp.int8(8)
    return signed


def _pack(whole: Int[Array, "G O 32"]) -> UInt[Array, "G O 16"]:
    positive = (whole + jnp.int8(8)).astype(jnp.uint8)
    packed: jax.Array = positive[..., :_HIGH] | (positive[..., _HIGH:] << jnp.uint8(4))
    return packed


def _whole(values: Float[Array, "*any"], bits: int) -> Int[Array, "*any"]:
    largest = _LARGEST[bits]
    lowest = -largest if bits == 8 else -largest - 1
    return jnp.clip(jnp.round(values), lowest, largest).astype(jnp.int8)


def _not_zero(scale: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Give rows of zeros a scale to divide by."""
    found: jax.Array = jnp.where(scale > 0, scale, 1.0)
    return found


def _round_up(values: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Return positive f32 values rounded up to those that bf16 has."""
    bits = lax.bitcast_convert_type(values, jnp.uint32)
    up: jax.Array = lax.bitcast_convert_type((bits + jnp.uint32(0xFFFF)) & jnp.uint32(0xFFFF0000), jnp.float32)
    return up
