"""Where the noise of simulated pull requests comes from: generators, and pairs that were recorded."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdicts.read_pairs import read_pairs
from qwenperf.stats.noise import KINDS, pair_noise, replay
from qwenperf.stats.pairs import estimate

Array = NDArray[np.float64]

CASES = 10
PAIRS = 20
CALM_SD = 0.05
RECORDED = Path(__file__).parent / "data" / "aa_pairs.csv"
OWN = Path(__file__).parent / "data" / "pairs"
"""Pairs of `live`, a table a machine."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of noise; ``draw(random, sd)`` gives the pairs of ten unchanged cases, ``sd`` is ignored by a replay."""

    name: str
    draw: Callable[[np.random.Generator, float], Array]
    deviations: tuple[float, float] | None
    """Lowest and highest deviation of calm pairs; ``None`` where the recording has its own."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The pairs of one sitting and mode: times by pair and round, base and head."""

    name: str
    base: Array
    head: Array

    @property
    def pairs(self) -> Array:
        """The median log ratio of each pair."""
        sides = zip(self.base.tolist(), self.head.tolist(), strict=True)
        return np.asarray([estimate(base, head).wall for base, head in sides])

    @property
    def calm(self) -> bool:
        """Whether its pairs deviate by 0.05 at most."""
        return float(self.pairs.std(ddof=1)) <= CALM_SD


def recordings(path: Path = RECORDED) -> list[Recording]:
    """Return what ``path`` holds, one recording a sitting and mode."""
    times: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with path.open() as file:
        for row in csv.DictReader(file):
            sides = float(row["wall_a_ns"]), float(row["wall_b_ns"])
            times[f"{row['mode']} {row['batch']}"][row["pair"]].append(sides)
    found = []
    for name, pairs in times.items():
        rounds = np.asarray(list(pairs.values()))
        found.append(Recording(name=name, base=rounds[:, :, 0], head=rounds[:, :, 1]))
    return found


def own_recordings(folder: Path = OWN) -> list[Recording]:
    """Return the first-stage pairs of unchanged code that `live` has recorded, one recording a machine and kind."""
    found = []
    for path in sorted(folder.glob("*.csv")):
        known = [pair for pair in read_pairs(path) if pair.stage == 1]
        for kind in ("idle", "busy"):
            pairs = [pair for pair in known if pair.kind == kind]
            if pairs:
                sides = (np.stack([getattr(pair, side) for pair in pairs]) for side in ("base", "head"))
                found.append(Recording(name=f"{path.stem}, {kind}", base=next(sides), head=next(sides)))
    return found


def scenarios() -> Mapping[str, Scenario]:
    """Return every kind of noise by lot, the two that the lot tames without it, and the replays.

    A pull request's noise is of one recording: own pairs of two machines, or of idle and busy, are never mixed.
    """
    kinds = [(kind, kind, True) for kind in KINDS]
    kinds += [(f"{kind}, no lot", kind, False) for kind in ("autoregressive", "drifting")]
    made = [
        Scenario(name=name, draw=_synthetic(kind, by_lot), deviations=(0.02, CALM_SD)) for name, kind, by_lot in kinds
    ]
    known = recordings()
    made.append(Scenario(name="replay, calm", draw=_replayed([one for one in known if one.calm]), deviations=None))
    made.append(Scenario(name="replay, noisy", draw=_replayed([one for one in known if not one.calm]), deviations=None))
    made += [
        Scenario(name=f"replay, own, {one.name}", draw=_replayed([one]), deviations=None) for one in own_recordings()
    ]
    return {scenario.name: scenario for scenario in made}


def _synthetic(kind: str, by_lot: bool) -> Callable[[np.random.Generator, float], Array]:  # noqa: FBT001 - private
    return lambda random, sd: pair_noise(kind, random, cases=CASES, pairs=PAIRS, sd=sd, by_lot=by_lot)


def _replayed(known: list[Recording]) -> Callable[[np.random.Generator, float], Array]:
    pairs = [one.pairs for one in known]
    return lambda random, _: replay(pairs[random.integers(len(pairs))], random, cases=CASES, pairs=PAIRS)
