"""In which precision products of a dtype are computed here: what decides how far two correct logits may be apart.

An accelerator multiplies f32 arrays in less than f32 unless told otherwise: a TPU rounds their numbers to bf16, an
NVIDIA GPU of compute capability 8 or more to TF32, 10 bits of a mantissa. With and without a cache the same product
then has another shape, another order of additions, and rounds other sums.
"""

from __future__ import annotations

import jax

_OF_PLATFORM = {"tpu": "bf16", "gpu": "tf32", "cuda": "tf32"}
_DEFAULT = {"", "default", "fastest"}
_ASKED = {"bfloat16": "bf16", "bf16_bf16_f32": "bf16", "tensorfloat32": "tf32", "tf32_tf32_f32": "tf32"}


def products_here(dtype: str) -> str:
    """Return ``f32``, ``tf32`` or ``bf16``: the precision of products of ``dtype`` on this process's devices."""
    asked = getattr(jax.config, "jax_default_matmul_precision", None)
    return products_in(dtype, platform=jax.default_backend(), precision=asked)


def products_in(dtype: str, *, platform: str, precision: str | None) -> str:
    """Return the precision of products of ``dtype`` on ``platform``, with jax's default matmul precision."""
    if dtype != "f32" or platform == "cpu":
        return dtype
    asked = (precision or "").lower()
    return _OF_PLATFORM.get(platform, dtype) if asked in _DEFAULT else _ASKED.get(asked, dtype)
