"""What no program can beat on a machine: the measured roofline with slack, for floors of time and for gates alike."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.schema.records import Roofline

BYTES_SLACK = 1.5
"""The memory roofline is a measurement; other programs have been seen to read a fifth faster than its kernels."""

FLOPS_SLACK = 4.0
"""The arithmetic roofline is measured with few products, and perhaps beside other work; chosen, not measured."""

CACHE_FACTOR = 4
"""What is so many times as large as the last cache is read from memory: the roofline's own arrays are."""

UNKNOWN_BEYOND_BYTES = 512_000_000
"""What no cache holds where the record does not say how large the last one is."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The most that can be done in a second; ``bytes_per_s`` holds for ``beyond_caches_bytes`` and more."""

    bytes_per_s: float
    flops_per_s: float
    beyond_caches_bytes: float


def ceiling(roofline: Roofline) -> Ceiling:
    """Return what nothing beats here, in whatever dtype it computes: the largest rate of all dtypes counts."""
    by_dtype = roofline.extra.get("flops_per_s_by_dtype", {})
    cache = roofline.extra.get("last_level_cache_bytes")
    return Ceiling(
        bytes_per_s=BYTES_SLACK * roofline.bytes_per_s,
        flops_per_s=FLOPS_SLACK * max(roofline.flops_per_s, *by_dtype.values(), 0.0),
        beyond_caches_bytes=CACHE_FACTOR * cache if cache else UNKNOWN_BEYOND_BYTES,
    )


def product_rate(roofline: Roofline, dtype: str) -> float:
    """Return the matrix-product roofline for ``dtype`` (``f32``, ``bf16``), that of f32 where it was not measured."""
    return float(roofline.extra.get("flops_per_s_by_dtype", {}).get(dtype, roofline.flops_per_s))
