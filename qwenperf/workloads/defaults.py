"""Which value of each setting to take on a platform: the fastest one measured there that keeps every token.

``best-cpu`` and its like are rungs: ``cached`` with what differs from it here. A setting that is not named keeps the
value of ``cached``, because no other was measured to be faster there. Approximate values are never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qwenperf.workloads.setting import Value


@dataclass(frozen=True, kw_only=True)
class Fastest:
    """The fastest value of a setting, and the measurement that says so: what was seen, where, when and how."""

    value: Value
    measured: str


_CPU = "2 cores x86-64, JAX 0.10, 4x128 f32, `qwenperf run --suite ladder` of 2026-11-28"


def _kept(*, value: Value, others: str) -> Fastest:
    """A value of ``cached`` beside which every reading of the others was slower."""
    return Fastest(value=value, measured=f"{_CPU}: {others}")


DEFAULTS: Mapping[str, Mapping[str, Fastest]] = {
    "cpu": {
        "rotary": _kept(value="tables", others="recomputed 0.82x (0.60 to 0.99)"),
        "loop": _kept(value="device", others="host 0.42x (0.32 to 0.58)"),
        "reuse": _kept(value=True, others="false 0.80x (0.74 to 0.92) of whole requests"),
        "layers": _kept(value="unrolled", others="scanned 0.29x (0.23 to 0.40)"),
        "rows": _kept(value=1, others="2 rows 0.26x (0.22 to 0.36); in bf16 two are faster, see docs/ladder.md"),
        "attention": _kept(value="grouped", others="dot_product_attention 0.76x (0.63 to 0.93)"),
        "key_block": _kept(value=0, others="64 keys 0.63x (0.49 to 0.77) at a capacity of 128"),
        "prefill_chunk": _kept(value=0, others="64 tokens 0.66x (0.57 to 0.82) of prefill"),
        "bucket": _kept(value=0, others="32 tokens 0.65x (0.57 to 0.76) of prefill: a prompt of 100 is padded to 128"),
    },
    "gpu": {},
    "tpu": {},
}
"""By platform and setting. ``qwenperf run --suite ladder`` measures every value and says which was fastest."""


def best_values(platform: str) -> dict[str, Value]:
    """Return the settings of a platform's best engine that were measured."""
    return {name: fastest.value for name, fastest in DEFAULTS[platform].items()}
