"""Which interval to build on: t, signed ranks or a studentised trimmed mean: `python -m benchmarks.verdicts.intervals`.

One look at 20 pairs, one case, the level that one of ten cases has; on a seed that judges nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.scenarios import CALM_SD, PAIRS
from benchmarks.verdicts.table import rate, shown
from qwenperf.stats import signs, student
from qwenperf.stats.noise import pair_noise

Array = NDArray[np.float64]
Interval = Callable[[Array], tuple[Array, Array]]

SEED = 1
LEVEL = 0.001
SAMPLES = 20_000
EFFECT = 0.05
MARGIN = math.log1p(0.03)
_TRIMMED = PAIRS // 10


def by_student(rows: Array) -> tuple[Array, Array]:
    """Mean, and its lower bound by Student's t."""
    error = rows.std(axis=1, ddof=1) / math.sqrt(PAIRS)
    return rows.mean(axis=1), rows.mean(axis=1) - student.quantile(LEVEL, PAIRS - 1) * error


def by_ranks(rows: Array) -> tuple[Array, Array]:
    """Hodges-Lehmann estimate, and its lower bound by signed ranks."""
    first, second = np.triu_indices(PAIRS)
    averages = np.sort((rows[:, first] + rows[:, second]) / 2, axis=1)
    depth = int(np.searchsorted(signs.rank_tail(PAIRS), LEVEL, side="right"))
    return np.median(averages, axis=1), averages[:, depth - 1]


def by_trimmed_mean(rows: Array) -> tuple[Array, Array]:
    """Mean without a tenth at either end, and its bound by the Winsorised deviation: Tukey and McLaughlin (1963)."""
    ordered, kept = np.sort(rows, axis=1), PAIRS - 2 * _TRIMMED
    centre = ordered[:, _TRIMMED:-_TRIMMED].mean(axis=1)
    winsorised = np.clip(ordered, ordered[:, [_TRIMMED]], ordered[:, [-_TRIMMED - 1]])
    error = winsorised.std(axis=1, ddof=1) * math.sqrt((PAIRS - 1) / (kept * (kept - 1)))
    return centre, centre - student.quantile(LEVEL, kept - 1) * error


INTERVALS: Mapping[str, Interval] = {
    "Student's t": by_student,
    "signed ranks": by_ranks,
    "10% trimmed mean": by_trimmed_mean,
}


def fails(interval: Interval, kind: str, effect: float) -> int:
    """Return how many of ``SAMPLES`` have a bound above 0 and an estimate at the margin."""
    noise = pair_noise(kind, np.random.default_rng(SEED), cases=SAMPLES, pairs=PAIRS, sd=CALM_SD, by_lot=False)
    centre, bound = interval(noise + math.log1p(effect))
    return int(np.sum((bound > 0) & (centre >= MARGIN)))


def main() -> None:
    """Print a row an interval: false alarms and what is found of +5%, in three kinds of noise."""
    for name, interval in INTERVALS.items():
        cells = [
            f"{fails(interval, kind, 0.0) / SAMPLES:.3%}, {shown(rate(fails(interval, kind, EFFECT), SAMPLES))}"
            for kind in ("iid", "heavy-tailed", "bimodal")
        ]
        print(f"| {name} | {' | '.join(cells)} |")  # noqa: T201 - the table is what the command is for


if __name__ == "__main__":
    main()
