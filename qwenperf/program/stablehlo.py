"""Reads a program as JAX lowered it (StableHLO text), before any compiler touched it."""

from __future__ import annotations

import re
from collections import Counter

_OPERATION = re.compile(r"\b(?:stablehlo|chlo|mhlo)\.(\w+)")
TRIGONOMETRIC = ("sine", "cosine", "tan")


def operations(text: str) -> dict[str, int]:
    """Count operations by name (``dot_general``, ``cosine``), most frequent first."""
    return dict(Counter(_OPERATION.findall(text)).most_common())


def trigonometric(text: str) -> dict[str, int]:
    """Count sine, cosine and tangent; empty when the program asks for none."""
    counts = operations(text)
    return {name: counts[name] for name in TRIGONOMETRIC if name in counts}
