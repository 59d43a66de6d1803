"""What approximate settings may cost: the largest error of a logit that is no bug, stated for each of them.

An engine whose settings are all exact has no bound here: its tokens are held to uncached ones, and to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.setting import Value

LOGIT_ERROR: Mapping[str, Mapping[Value, float]] = {
    "softmax": {"accumulated": 0.02, "native": 0.03},
    "cache_dtype": {"bf16": 0.03, "int8": 0.06},
    "weights": {"int8": 0.12, "int8-g32": 0.12, "int4-g32": 0.8},
    "activations": {"int8": 0.12},
}
"""By setting and value: |error| of a logit as a share of the largest |logit| of its row and step.

Two to three times what seeded weights of 2 to 4 layers show, as errors add up over layers: 0.010 for a cache of bf16,
0.021 of int8; 0.05 for weights of int8 and 0.43 of int4, which with Gaussian weights leaves little of the choice among
hundreds of tokens. A wrong scale or axis is further off: logits that have nothing to do with each other differ by more
than 1. What a setting costs in quality is for a perplexity to say; this only tells its cost from a bug. A value that
is not listed is exact (so is a finer precision of products); a window is another model, and the truth that it is held
to has the same window.
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
    """Return how far a logit may be off in all, ``None`` for an exact engine.

    Roundings of several places know nothing of each other, so their squares add up, and those of the bounds do. A plain
    sum would be beyond 1 for the coarsest settings together: logits that have nothing to do with the truth would pass.
    """
    found = approximations(settings)
    return math.hypot(*found.values()) if found else None
