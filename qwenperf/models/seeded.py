"""Weights from a seed, made in place on the device: the right shape without a file.

Values are uniform, from a hash of their index: a few integer operations and one product each, so that one
seed gives the same weights on every machine and JAX version. Outputs of every layer have a size near one while
embeddings are small, so that the residual stream is not the last token's own embedding, repeated for ever.
"""

from __future__ import annotations

import functools
import math
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import Params, Shape, array_dtype, build_params

EMBEDDING_SCALE = 0.02
# A little above one: attention then prefers some positions, so that tokens depend on the whole context.
ATTENTION_SHARPNESS = 1.3
BIAS_SCALE = 0.1
_SHARP = ("q_proj", "k_proj", "qkv_proj")


def seeded_params(config: ModelConfig, dtype: str = "f32", seed: int = 0) -> Params:
    """Return parameters of ``config``'s shapes; bf16 values are the rounded f32 ones of the same seed."""
    target = array_dtype(dtype)

    def make(name: str, shape: Shape) -> jax.Array:
        if "norm" in name and not name.endswith("bias"):
            return jnp.full(shape, ATTENTION_SHARPNESS if ".self_attn." in name else 1, target)
        # By name, not by position: a shape with one layer more keeps the layers that it had.
        key = np.uint32(zlib.crc32(f"{seed}/{name}".encode()))
        made: jax.Array = _uniform(key, np.float32(_scale(name, shape)), shape, target)
        return made

    return build_params(config, make)


def _scale(name: str, shape: Shape) -> float:
    """Return the standard deviation of a parameter."""
    if name.endswith("bias"):
        return BIAS_SCALE
    if name.startswith("embed_"):
        return EMBEDDING_SCALE
    sharpness = ATTENTION_SHARPNESS if name.split(".")[-2] in _SHARP else 1.0
    return sharpness / math.sqrt(shape[-1])


@functools.partial(jax.jit, static_argnums=(2, 3))
def _uniform(key: jax.Array, scale: jax.Array, shape: Shape, dtype: Any) -> jax.Array:
    index = jax.lax.iota(jnp.uint32, math.prod(shape))
    bits = jax.lax.bitcast_convert_type(_mix(_mix(index) ^ key), jnp.int32)
    unit = bits.astype(jnp.float32) * jnp.float32(2.0**-31)
    scaled: jax.Array = (unit * (jnp.float32(math.sqrt(3.0)) * scale)).astype(dtype)
    return scaled.reshape(shape)


def _mix(x: jax.Array) -> jax.Array:
    """Hash 32 bits; the constants are those of the bias-searched "lowbias32" (C. Wellons, hash-prospector)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    mixed: jax.Array = x ^ (x >> 16)
    return mixed
