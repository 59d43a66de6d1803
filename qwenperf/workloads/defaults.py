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


_CPU = "2 cores x86-64, 2026-11-27"

DEFAULTS: Mapping[str, Mapping[str, Fastest]] = {
    "cpu": {
        "layers": Fastest(
            value="unrolled",
            measured=f"{_CPU}, 0.5B f32: 10.6 tokens/s unrolled, 6.0 scanned; int8 26.1 and 17.8 (plain trial code)",
        ),
        "loop": Fastest(
            value="device",
            measured=f"{_CPU}, 0.5B f32: equal to a loop on the host within noise; fewer dispatches (plain trial code)",
        ),
    },
    "gpu": {},
    "tpu": {},
}
"""By platform and setting. ``qwenperf run --suite ladder`` measures every value and says which was fastest."""


def best_values(platform: str) -> dict[str, Value]:
    """Return the settings of a platform's best engine that were measured."""
    return {name: fastest.value for name, fastest in DEFAULTS[platform].items()}
