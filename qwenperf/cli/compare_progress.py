"""Progress of a comparison on stderr: pairs done, where each case stands, time left at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from qwenperf import units
from qwenperf.schema.comparison import ComparisonRecord, PairRecord
from qwenperf.stats.sequential import Decision


class PairProgress:
    """One line a pair and one a case at each look."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now, self._start = say, now, now()

    def pair_ended(self, comparison: ComparisonRecord, pair: PairRecord, most: int) -> None:
        """Say that a pair is done and how long the rest may take."""
        done = sum(one.stage == pair.stage for one in comparison.pairs)
        each = (self._now() - self._start) / len(comparison.pairs)
        left = f", at most {units.seconds(each * (most - done))} left" if done < most else ""
        name = "pair" if pair.stage == 1 else "confirming pair"
        self._say(f"{name} {done} of at most {most}{f' broke: {pair.failed}' if pair.failed else ''}{left}")

    def looked(self, comparison: ComparisonRecord, look: int, decisions: Mapping[str, Decision]) -> None:
        """Say where each case stands."""
        for case in comparison.cases:
            if case.id in decisions:
                decision = decisions[case.id]
                interval = f"{decision.low:+.1%} to {decision.high:+.1%}"
                self._say(f"  after {look} pairs: {case.id}: {decision.outcome.value}, {interval}")
