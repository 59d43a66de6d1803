"""What approximate settings may cost: the largest error of a logit that is no bug, stated for each of them.

An engine whose settings are all exact has no bound here: its tokens are held to uncached ones, and to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.setting import Value

LOGIT_ERROR: Mapping[str, Mapping[Value, float]] = {
    "precision": {"highest": 0.02, "high": 0.02},
    "softmax": {"accumulated": 0.02, "native": 0.03},
    "cache_dtype": {"bf16": 0.02, "int8": 0.04},
    "weights": {"int8": 0.06, "int8-g32": 0.05, "int4-g32": 0.35},
    "activations": {"int8": 0.06},
}
"""By setting and value: |error| of a logit as a share of the largest |logit| of its row and step.

Chosen from the step of each rounding, not fitted: with Gaussian weights int8 a channel is off by about 1% a product,
int4 in groups of 32 by 8%; errors of many layers add up to a few times that. A value that is not listed is exact; a
window is another model, and the truth that it is held to has the same window.
"""


def approximations(settings: EngineSettings) -> dict[str, float]:
    """Return the bound of each approximate setting that is on, by ``setting=value``; empty for an exact engine."""
    found = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        bound = LOGIT_ERROR.get(one.name, {}).get(value)
        if bound is not None and value != one.default:
            found[f"{one.name}={value}"] = bound
    return found


def logit_bound(settings: EngineSettings) -> float | None:
    """Return how far a logit may be off in all, ``None`` for an exact engine: errors may add up, so bounds do."""
    found = approximations(settings)
    return sum(found.values()) if found else None
