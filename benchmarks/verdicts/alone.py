"""One case alone, and what confirmation costs: `python -m benchmarks.verdicts.alone`.

A comparison of one case has all of alpha, and no other cases to tell how noisy the machine is. The second stage is
`stats.confirm`'s own, as in `qwenperf compare`.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from benchmarks.verdicts.scenarios import CALM_SD, PAIRS
from benchmarks.verdicts.table import rate, shown
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import confirm
from qwenperf.stats.noise import KINDS, pair_noise
from qwenperf.stats.sequential import Plan, judge, outcomes

SEED = 20261128
EFFECT = 0.05
CASE = "case"


def main() -> None:
    """Print a row a kind of noise, all pairs deviating by 0.05."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="comparisons of each kind of noise")
    count = parser.parse_args().count
    print("| noise | false fail | +5% found | and confirmed | +5% passed |\n| --- | --- | --- | --- | --- |")  # noqa: T201
    for kind in KINDS:
        print(f"| {kind} | {' | '.join(shown(rate(hits, count)) for hits in measure(kind, count))} |")  # noqa: T201


def measure(kind: str, count: int) -> tuple[int, int, int, int]:
    """Return false fails; fails of a case that is slower, those confirmed on fresh pairs, and its passes."""
    random = np.random.default_rng([SEED, *kind.encode()])
    false = found = confirmed = passed = 0
    for _ in range(count):
        false += outcomes(_pairs(kind, random, 0.0), {}, Plan())[CASE] is Outcome.FAIL
        slower = _pairs(kind, random, EFFECT)
        outcome = outcomes(slower, {}, Plan())[CASE]
        passed += outcome is Outcome.PASS
        if outcome is Outcome.FAIL:
            found += 1
            again = confirm(judge(slower, {}, Plan()), _pairs(kind, random, EFFECT))
            confirmed += again[CASE].outcome is Outcome.FAIL
    return false, found, confirmed, passed


def _pairs(kind: str, random: np.random.Generator, effect: float) -> dict[str, list[float]]:
    noise = pair_noise(kind, random, cases=1, pairs=PAIRS, sd=CALM_SD)[0]
    return {CASE: (noise + math.log1p(effect)).tolist()}


if __name__ == "__main__":
    main()
