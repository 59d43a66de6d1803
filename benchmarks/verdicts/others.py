"""What rules in use would have said of the same recorded processes: base from one process, head from another.

The rules are written from what the tools document, not run: 10% and 200% on single runs; pytest-benchmark's
``--benchmark-compare-fail`` with ``mean:5%`` and ``min:5%``; asv's ``continuous`` with its factor 1.1 and, where both
sides have samples, a Mann-Whitney test at 0.002.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.scenarios import CASES, Recording

Array = NDArray[np.float64]
Rule = Callable[[Array, Array], bool]

_ASV_FACTOR = 1.1
_ASV_P = 0.002


def asv_like(base: Array, head: Array) -> bool:
    """Slower by the factor in the median, and different in the ranks."""
    return bool(np.median(head) > _ASV_FACTOR * np.median(base)) and mann_whitney_p(base, head) < _ASV_P


def mann_whitney_p(base: Array, head: Array) -> float:
    """Return the two-sided p by the normal approximation, which is good to the second digit for 12 rounds a side."""
    ahead = float(np.sum(head[:, None] > base[None, :]) + np.sum(head[:, None] == base[None, :]) / 2)
    count = len(base) * len(head)
    deviation = math.sqrt(count * (len(base) + len(head) + 1) / 12)
    return 2 * NormalDist().cdf(-max(0.0, abs(ahead - count / 2) - 0.5) / deviation)


RULES: Mapping[str, Rule] = {
    "10% on single runs": lambda base, head: bool(head.mean() > 1.1 * base.mean()),
    "200% on single runs": lambda base, head: bool(head.mean() > 3 * base.mean()),
    "pytest-benchmark mean:5%": lambda base, head: bool(head.mean() > 1.05 * base.mean()),
    "pytest-benchmark min:5%": lambda base, head: bool(head.min() > 1.05 * base.min()),
    "asv continuous, factor 1.1": asv_like,
}


def alarms(known: list[Recording], effects: tuple[float, ...], count: int, seed: int) -> dict[str, dict[str, int]]:
    """Return for each rule in how many of ``count`` pull requests of ten cases it raised an alarm.

    ``unchanged``: any alarm on ten unchanged cases. An effect: the alarm on the one case that is slower by it.
    """
    random = np.random.default_rng(seed)
    found = {rule: dict.fromkeys(("unchanged", *(f"{effect:+.0%}" for effect in effects)), 0) for rule in RULES}
    for _ in range(count):
        one = known[random.integers(len(known))]
        cases = [_processes(one, random) for _ in range(CASES)]
        for name, rule in RULES.items():
            found[name]["unchanged"] += any(rule(base, head) for base, head in cases)
            for effect in effects:
                found[name][f"{effect:+.0%}"] += rule(cases[0][0], cases[0][1] * (1 + effect))
    return found


def _processes(one: Recording, random: np.random.Generator) -> tuple[Array, Array]:
    """Two different processes of one sitting, each measured on its own, as jobs before and after a change are."""
    before, after = random.choice(len(one.base), size=2, replace=False)
    return one.base[before], one.head[after]
