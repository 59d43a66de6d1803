"""Rotary position embedding in Hugging Face's layout: the two halves of a head are the pair's coordinates.

    x = [a | b]  ->  [a cos - b sin | b cos + a sin],   angle[p, f] = p * frequency[f]

Computed in f32 whatever the model's dtype. Sines come either from tables made once (``make_tables``,
``look_up``) or from positions on the spot (``compute``); callers choose, layers cannot tell. All is None where
positions are learned, and nothing turns. Frequencies, stretched ones too, come from ``rope_scaling``.
Source: https://arxiv.org/abs/2104.09864.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from qwenperf.models.config import ModelConfig
from qwenperf.models.rope_scaling import frequencies


class RotaryTables(NamedTuple):
    """Cosine and sine of every position (P) and frequency (F), made once for a model and a length."""

    cos: Float[Array, "P F"]
    sin: Float[Array, "P F"]


class Rotation(NamedTuple):
    """Cosine and sine for the tokens at hand."""

    cos: Float[Array, "B T F"]
    sin: Float[Array, "B T F"]


def make_tables(config: ModelConfig, length: int) -> RotaryTables | None:
    """Return tables for positions 0 to ``length - 1``; made with numpy, so that nothing is compiled for them."""
    if config.rope_theta is None:
        return None
    angle_PF = np.arange(length, dtype=np.float32)[:, None] * _frequencies(config)[None, :]
    scale = _scale(config)
    return RotaryTables(cos=jax.device_put(np.cos(angle_PF) * scale), sin=jax.device_put(np.sin(angle_PF) * scale))


def look_up(tables: RotaryTables, positions_BT: Int[Array, "B T"]) -> Rotation:
    """Read the tables at ``positions_BT``, which are within them (engines check that on the host)."""
    return Rotation(*(table_PF.at[positions_BT].get(mode="promise_in_bounds") for table_PF in tables))


def compute(config: ModelConfig, positions_BT: Int[Array, "B T"]) -> Rotation | None:
    """Compute sines and cosines at ``positions_BT`` in the program itself."""
    if config.rope_theta is None:
        return None
    frequency_11F = jnp.asarray(_frequencies(config)[None, None, :])
    angle_BTF = jnp.expand_dims(positions_BT.astype(jnp.float32), -1) * frequency_11F
    cos_BTF, sin_BTF = jnp.cos(angle_BTF), jnp.sin(angle_BTF)
    # Without a factor no product: programs of unscaled models stay as they are.
    scale = _scale(config)
    return Rotation(cos=cos_BTF, sin=sin_BTF) if scale == 1 else Rotation(cos=cos_BTF * scale, sin=sin_BTF * scale)


def rotate(x_BTHD: Float[Array, "B T H D"], rotation: Rotation | None) -> Float[Array, "B T H D"]:
    """Turn queries or keys by their position's angles; same for every head."""
    if rotation is None:
        return x_BTHD
    cos_BT1F, sin_BT1F = (jnp.expand_dims(part_BTF, 2) for part_BTF in rotation)
    first_BTHF, second_BTHF = jnp.split(x_BTHD.astype(jnp.float32), 2, axis=-1)
    turned = (first_BTHF * cos_BT1F - second_BTHF * sin_BT1F, second_BTHF * cos_BT1F + first_BTHF * sin_BT1F)
    return jnp.concatenate(turned, axis=-1).astype(x_BTHD.dtype)


def _frequencies(config: ModelConfig) -> np.ndarray:
    assert config.rope_theta is not None
    return frequencies(config.rope_theta, config.head_dim, config.rope_scaling)


def _scale(config: ModelConfig) -> np.float32:
    return np.float32(1.0 if config.rope_scaling is None else config.rope_scaling.attention_factor)
