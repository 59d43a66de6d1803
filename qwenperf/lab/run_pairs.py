"""Two sides by whole runs: each pair is one ``qwenperf run`` of either side, one after the other, in an order by lot.

For what the process pairs of ``lab.pairs`` do not time: compile seconds, memory, times to the first token. A run is one
value a metric, so a pair is one log ratio; the decisions are the same as theirs, with a confirmation on fresh pairs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from qwenperf.errors import MeasurementError
from qwenperf.gate.comparison import TOO_MANY_BROKEN
from qwenperf.lab.side_command import run_side, value_of
from qwenperf.lab.sides import Side
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import Json, Outcome, RunRecord
from qwenperf.stats.confirm import CONFIRM
from qwenperf.stats.sequential import Decision, decide
from qwenperf.stats.spending import Plan

PAIR_SCHEMA = "qwenperf.run-pair.v1"

Key = tuple[str, str]
"""A case and a metric."""


class Listener(Protocol):
    """Who wants to know what is going on."""

    def run_pair_ended(self, number: int, most: int, stage: int, failed: str | None) -> None:
        """A pair of runs is over, as one of at most ``most`` of its stage."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunPair:
    """One pair. ``runs`` by side, in the order in which they were made; ``failed`` says why a value is missing."""

    number: int
    stage: int
    first: str
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    failed: str | None = None
    schema: str = PAIR_SCHEMA
    extra: Json = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no more is to come."""
        return self.failed is not None or len(self.runs) > 1


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What both stages say of one metric of one case; differences are relative, above 0 where head is worse."""

    first: Decision
    second: Decision | None = None

    @property
    def outcome(self) -> Outcome:
        """The verdict: a fail is one that fresh pairs confirm."""
        if self.first.outcome is Outcome.FAIL and (self.second is None or self.second.outcome is not Outcome.FAIL):
            return Outcome.INCONCLUSIVE
        return self.first.outcome


@dataclass(kw_only=True)
class RunPairs:
    """Measures pairs of runs until ``plan`` decides on every key. ``margins`` by key, the plan's where none is given.

    ``arguments`` are those of ``qwenperf run`` that choose the cases. ``measured`` is told each whole run of a side,
    and ``kept`` each pair, after its first run and when it is over, both before the next run begins: who wants to keep
    what was measured does so then. ``pairs`` are those that were measured before; measuring goes on behind them.
    """

    base: Side
    head: Side
    arguments: Sequence[str]
    keys: Sequence[Key]
    plan: Plan
    seed: int
    listener: Listener
    margins: Mapping[Key, float] = field(default_factory=dict)
    measured: Callable[[str, RunRecord], None] = lambda _side, _run: None
    kept: Callable[[RunPair], None] = lambda _pair: None
    pairs: list[RunPair] = field(default_factory=list)
    stages: dict[int, dict[str, Decision]] = field(default_factory=dict)

    @one_measurement()
    def run(self) -> dict[Key, Judged]:
        """Measure, decide, and confirm what would fail; a key of which too little was measured is left out.

        Raises:
          MeasurementError: three pairs broke; says how the last one did.
        """
        self._decide(self.plan, self.keys, stage=1)
        failed = [key for key in self.keys if self._outcome(key, 1) is Outcome.FAIL]
        if failed:
            self._decide(CONFIRM, failed, stage=2)
        second = self.stages.get(2, {})
        return {
            key: Judged(first=self.stages[1][_name(key)], second=second.get(_name(key)))
            for key in self.keys
            if _name(key) in self.stages.get(1, {})
        }

    @one_measurement()
    def until(self, enough: Callable[[Sequence[float]], bool], most: int) -> list[float]:
        """Measure pairs until the log ratios of the one key are ``enough``, ``most`` at most; return them.

        Raises:
          MeasurementError: three pairs broke; says how the last one did.
        """
        while len(values := self._ratios(self.keys[0], 1)) < most and not enough(values):
            self._measure(1, most)
        return values

    def ratios(self, key: Key) -> list[float]:
        """Return the log ratios of all whole pairs of both stages, above 0 where head is worse."""
        return [*self._ratios(key, 1), *self._ratios(key, 2)]

    def _outcome(self, key: Key, stage: int) -> Outcome | None:
        decision = self.stages.get(stage, {}).get(_name(key))
        return None if decision is None else decision.outcome

    def _decide(self, plan: Plan, keys: Sequence[Key], *, stage: int) -> None:
        for look, count in enumerate(plan.looks):
            while self._whole(stage) < count:
                self._measure(stage, plan.looks[-1])
            values = {_name(key): self._ratios(key, stage)[:count] for key in keys}
            values = {name: seen for name, seen in values.items() if seen}
            margins = {_name(key): margin for key, margin in self._margins(keys, stage).items() if _name(key) in values}
            if not values:
                return
            self.stages[stage] = decide(values, margins, plan, look, self.stages.get(stage))
            if all(one.final for one in self.stages[stage].values()):
                return

    def _margins(self, keys: Sequence[Key], stage: int) -> dict[Key, float]:
        """Return the margins of a stage: the confirmation goes by those of the first."""
        if stage == 1:
            return {key: self.margins.get(key, self.plan.margin) for key in keys}
        return {key: self.stages[1][_name(key)].margin for key in keys}

    def _whole(self, stage: int) -> int:
        return sum(pair.stage == stage and pair.failed is None for pair in self.pairs)

    def _measure(self, stage: int, most: int) -> None:
        number = 1 + sum(pair.stage == stage for pair in self.pairs)
        order = [self.base, self.head]
        block, second = divmod(number - 1, 2)
        lot = random.Random(f"{self.seed}-{stage}-{block}").random() < 0.5  # noqa: S311  (a coin)
        if lot == bool(second):
            order.reverse()
        pair = RunPair(number=number, stage=stage, first=order[0].name)
        failed = None
        try:
            for side in order:
                run = run_side(side, self.arguments)
                pair = replace(pair, runs={**pair.runs, side.name: run})
                self.measured(side.name, run)
                if not pair.is_over:
                    self.kept(pair)
            self._check(pair.runs)
        except MeasurementError as error:
            failed = error.message
        pair = replace(pair, failed=failed)
        self.pairs.append(pair)
        self.kept(pair)
        self.listener.run_pair_ended(number, most, stage, failed)
        if sum(pair.failed is not None for pair in self.pairs) >= TOO_MANY_BROKEN:
            raise MeasurementError(f"{TOO_MANY_BROKEN} pairs broke, the last one: {failed}")

    def _check(self, runs: Mapping[str, RunRecord]) -> None:
        """Refuse a pair that says nothing at all: of several cases one may be missing on both sides.

        Raises:
          MeasurementError: says what the first key lacks.
        """
        errors = []
        for case, metric in self.keys:
            try:
                for run in runs.values():
                    _positive(value_of(run, case, metric), metric)
            except MeasurementError as error:
                errors.append(error.message)
        if len(errors) == len(self.keys):
            raise MeasurementError(errors[0])

    def _ratios(self, key: Key, stage: int) -> list[float]:
        found = []
        for pair in self.pairs:
            if pair.stage == stage and pair.failed is None:
                ratio = _ratio(pair.runs, key)
                found += [] if ratio is None else [ratio]
        return found


def _ratio(runs: Mapping[str, RunRecord], key: Key) -> float | None:
    """Return the log ratio of head to base, above 0 where head is worse; ``None`` where a side has no such number."""
    case, metric = key
    try:
        base, head = (_positive(value_of(runs[side], case, metric), metric) for side in ("base", "head"))
    except MeasurementError:
        return None
    ratio = math.log(head / base)
    return -ratio if lookup(metric).direction is Direction.HIGHER else ratio


def _positive(value: float, metric: str) -> float:
    if value <= 0:
        raise MeasurementError(f"{metric} is {value}: relative differences are of numbers above 0.")
    return value


def _name(key: Key) -> str:
    return " ".join(key)
