"""Progress of a comparison on stderr: pairs done, where each case stands, time left at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from qwenperf import units
from qwenperf.gate.speed import pair_estimates
from qwenperf.schema.comparison import ComparisonRecord, PairRecord
from qwenperf.stats.sequential import Decision
from qwenperf.stats.so_far import so_far


class PairProgress:
    """One line a pair and one a case at each look."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now, self._start = say, now, now()

    def pair_ended(self, comparison: ComparisonRecord, pair: PairRecord, most: int) -> None:
        """Say that a pair is done, what all of them say so far, and how long the rest may take."""
        done = sum(one.stage == pair.stage for one in comparison.pairs)
        each = (self._now() - self._start) / len(comparison.pairs)
        name = "pair" if pair.stage == 1 else "confirming pair"
        told = [
            f"{name} {done} of at most {most}{f' broke: {pair.failed}' if pair.failed else ''}",
            _standing(comparison, pair.stage),
            f"at most {units.seconds(each * (most - done))} left" if done < most else "",
        ]
        self._say(", ".join(filter(None, told)))

    def looked(self, comparison: ComparisonRecord, look: int, decisions: Mapping[str, Decision]) -> None:
        """Say where each case stands."""
        for case in comparison.cases:
            if case.id in decisions:
                decision = decisions[case.id]
                interval = f"{decision.low:+.1%} to {decision.high:+.1%}"
                self._say(f"  after {look} pairs: {case.id}: {decision.outcome.value}, {interval}")


def _standing(comparison: ComparisonRecord, stage: int) -> str:
    """Say how the case that looks slowest stands; empty before its second pair."""
    names = {name for pair in comparison.pairs if pair.stage == stage for name in pair.rounds}
    shown = [case.id for case in comparison.cases if case.id in names]
    found = {name: so_far([one.wall for one in pair_estimates(comparison.pairs, name, stage)]) for name in shown}
    known = {name: one for name, one in found.items() if one is not None}
    if not known:
        return ""
    name = max(known, key=lambda name: known[name][0])
    estimate, low, high = known[name]
    whose = f"slowest of {len(known)} {name}: " if len(known) > 1 else ""
    return f"{whose}{estimate:+.1%} ({low:+.1%} to {high:+.1%})"
