"""The two comparisons that a bisection of a timed metric is made of: pairs of processes, or pairs of whole runs.

Either answers in two ways: as ``qwenperf compare`` decides, or by which of two known levels its pairs lie at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from qwenperf.errors import MeasurementError
from qwenperf.gate.comparison import ENVIRONMENT
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import pair_estimates, token_times
from qwenperf.lab.bisect_kept import QUESTION, digest, unfinished
from qwenperf.lab.bisect_probe import Measured
from qwenperf.lab.compare import Comparison, Until, create_folder, same_code
from qwenperf.lab.compare import Listener as PairListener
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.run_pair_files import PairFolders, read_pairs, write_pair
from qwenperf.lab.run_pairs import Judged, RunPair, RunPairs
from qwenperf.lab.run_pairs import Listener as RunListener
from qwenperf.lab.sides import Side
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Outcome
from qwenperf.stats.levels import Level, Levels, tell
from qwenperf.stats.sequential import Decision
from qwenperf.stats.so_far import so_far
from qwenperf.stats.spending import Plan
from qwenperf.traces.diff import REQUESTS, top_lines
from qwenperf.workloads.case import Case

SOFTWARE = ("jax", "jaxlib", "libtpu", "python")
"""Fields of the environment in which two commits may differ: their locks are part of them."""

BY_REQUEST = ("request_s", "request_tokens_per_s")
"""Metrics that pairs of processes time: whole requests, with programs that the first pair has compiled."""

NO_RATIO = ("scaling_per_100_tokens",)
"""Metrics that may be 0 or below, of which there is no relative difference."""


_OUTCOMES = {Level.CHANGED: Outcome.FAIL, Level.UNCHANGED: Outcome.PASS, Level.OPEN: Outcome.INCONCLUSIVE}


@dataclass(kw_only=True)
class ByPairs:
    """Compares whole requests; ``folder`` holds a folder for each comparison.

    A question that was cut short goes on behind the pairs of last time. ``begun`` tells the search from an earlier one
    in the same folder, ``answered`` are folders whose pairs have led to an answer. ``check`` is asked before a pair is
    kept, and raises where it was measured in another environment.
    """

    case: Case
    options: PairOptions
    folder: Path
    listener: Callable[[], PairListener]
    begun: str = ""
    answered: set[str] = field(default_factory=set)
    check: Callable[[], None] = lambda: None

    def __call__(
        self, base: Side, head: Side, plan: Plan, levels: Levels | None = None, *, traced: bool = False
    ) -> Measured:
        """Return what pairs of processes say.

        Raises:
          KeyboardInterrupt: somebody ended it; its pairs are in its folder.
        """
        asked = (self.begun, base.label, head.label, asdict(plan), levels and asdict(levels), traced)
        earlier = unfinished(self.folder, asked, self.answered)
        place, stage = self.folder / earlier.id if earlier else create_folder(self.folder), 2 if traced else 1
        facts: dict[str, object] = {"varies": list(SOFTWARE), QUESTION: digest(asked)}
        until = None
        if levels is not None:
            until = Until(enough=lambda pairs: _is_told(pairs, levels), most=levels.most, stage=stage)
            facts["levels"] = asdict(levels)
        record = Comparison(
            base=base, head=head, inventory=Inventory(shared=(self.case,)), plan=plan, options=self.options,
            folder=place, listener=self.listener(), until=until, earlier=earlier, check=self.check,
            facts={"plan": facts, "extra": {"same_code": same_code(base, head)}},
        ).run()  # fmt: skip
        if record.interrupted:
            raise KeyboardInterrupt
        self.answered.add(place.name)
        return measured(record, place.name) if levels is None else told_apart(record, place.name, levels, stage)


def _is_told(values: Sequence[float], levels: Levels) -> bool:
    return tell(values, levels).level is not Level.OPEN


def told_apart(record: ComparisonRecord, folder: str, levels: Levels, stage: int) -> Measured:
    """Return which level the pairs of a comparison of one case lie at."""
    skipped = _skipped(record, folder)
    if skipped is not None:
        return skipped
    seen = _of_levels(_values(record, stage), levels)
    return replace(seen, folder=folder, lines=_slower(record) if seen.outcome is Outcome.FAIL else ())


def _of_levels(values: Sequence[float], levels: Levels) -> Measured:
    """Return which level log ratios lie at, with their centre and a plain 95% interval of it."""
    told = tell(values, levels)
    estimate, low, high = so_far(values) or (None, None, None)
    doubts = f"unchanged code is doubted {told.against_unchanged:.3g} to 1, a change {told.against_changed:.3g} to 1"
    return Measured(
        outcome=_OUTCOMES[told.level],
        estimate=estimate,
        low=_bound(low),
        high=_bound(high),
        pairs=len(values),
        why=f"{told.level.value} after {told.pairs} pairs: {doubts}",
        values=tuple(values),
    )


def _values(record: ComparisonRecord, *stages: int) -> tuple[float, ...]:
    case = record.cases[0].id
    return tuple(one.wall for stage in stages for one in pair_estimates(record.pairs, case, stage))


def _skipped(record: ComparisonRecord, folder: str) -> Measured | None:
    """Return why a comparison says nothing of time; ``None`` where it does."""
    unfit = [one.summary for one in record.verdicts if one.gate == ENVIRONMENT]
    verdicts = record.cases[0].verdicts if record.cases else ()
    speed = next((one for one in verdicts if one.gate == SPEED), None)
    if not unfit and speed is not None and speed.outcome is not Outcome.SKIPPED:
        return None
    broken = [pair.failed for pair in record.pairs if pair.failed]
    told = (*unfit, *broken[-1:], *(one.summary for one in verdicts if one.outcome is Outcome.FAIL))
    why = next(iter((*told, *(one.summary for one in verdicts))), "nothing was measured")
    return Measured(outcome=Outcome.SKIPPED, why=why, folder=folder)


def measured(record: ComparisonRecord, folder: str) -> Measured:
    """Return what a comparison of one case decides of its time."""
    skipped = _skipped(record, folder)
    if skipped is not None:
        return skipped
    speed = next(one for one in record.cases[0].verdicts if one.gate == SPEED)
    # Fresh pairs tell the size of what was found; the first ones were chosen for looking large.
    seen: Mapping[str, float] = speed.data["stage_2" if speed.outcome is Outcome.FAIL else "stage_1"]
    return Measured(
        outcome=speed.outcome,
        estimate=seen.get("estimate"),
        low=_bound(seen.get("low")),
        high=_bound(seen.get("high")),
        pairs=sum(pair.failed is None for pair in record.pairs),
        why=speed.summary,
        lines=_slower(record) if speed.outcome is Outcome.FAIL else (),
        folder=folder,
        values=_values(record, 1, 2),
    )


def _slower(record: ComparisonRecord) -> tuple[str, ...]:
    """Return what takes longer in head, from the traces of the confirmation; nothing where there are none."""
    case = record.cases[0]
    summaries = case.extra.get("trace_summaries")
    if not isinstance(summaries, Mapping):
        return ()
    timed = token_times(record.pairs, case)
    return top_lines(summaries.get("base"), summaries.get("head"), timed=timed, timed_of=REQUESTS)


@dataclass(kw_only=True)
class ByRuns:
    """Compares one metric of whole runs; each is in one of ``places`` before the next begins.

    A question that was cut short goes on behind the pairs of last time.
    """

    case: str
    metric: str
    arguments: Sequence[str]
    seed: int
    listener: RunListener
    places: PairFolders
    check: Callable[[], None] = lambda: None

    def __call__(
        self, base: Side, head: Side, plan: Plan, levels: Levels | None = None, *, traced: bool = False
    ) -> Measured:
        """Return what pairs of runs say; errors as ``RunPairs.run``, and those of ``run_pair_files``."""
        asked = (base.label, head.label, asdict(plan), None if levels is None else asdict(levels), traced)
        place = self.places.open(asked)
        pairs = RunPairs(
            base=base, head=head, arguments=self.arguments, keys=((self.case, self.metric),), plan=plan,
            seed=self.seed, listener=self.listener, pairs=read_pairs(place), kept=partial(self._keep, place),
        )  # fmt: skip
        try:
            found = self._measured(pairs, levels)
        except MeasurementError:
            self.places.answered.add(place.name)
            raise
        self.places.answered.add(place.name)
        return replace(found, folder=place.name)

    def _keep(self, place: Path, pair: RunPair) -> None:
        """Write a pair down, unless it was measured in another environment."""
        self.check()
        write_pair(place, pair)

    def _measured(self, pairs: RunPairs, levels: Levels | None) -> Measured:
        (key,) = pairs.keys
        if levels is not None:
            return _of_levels(pairs.until(lambda values: _is_told(values, levels), levels.most), levels)
        found = pairs.run().get(key)
        if found is None:
            return Measured(outcome=Outcome.SKIPPED, why=f"no pair of runs has {self.metric}")
        return _of_runs(found, pairs.ratios(key))


def _of_runs(found: Judged, values: Sequence[float]) -> Measured:
    told: Decision = found.second if found.outcome is Outcome.FAIL and found.second else found.first
    return Measured(
        outcome=found.outcome,
        estimate=_bound(told.estimate),
        low=_bound(told.low),
        high=_bound(told.high),
        pairs=found.first.pairs + (found.second.pairs if found.second else 0),
        why=told.settle,
        values=tuple(values),
    )


def _bound(value: float | None) -> float | None:
    """Return an end of an interval; ``None`` where there is none."""
    return None if value is None or not math.isfinite(value) or value <= -1 else value
