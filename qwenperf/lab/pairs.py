"""Process pairs: two fresh processes, one of each side, timed by turns and never at the same time.

A pair is the unit of the decision. Its rounds are neighbours in time (ABBA or BAAB, in equal numbers and random
order), so that what slows the machine for a while slows both sides; a new pair draws anew what a process keeps for
life, such as where its memory lies.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError, MeasurementError
from qwenperf.lab import machine
from qwenperf.lab.sides import Side
from qwenperf.lab.subject import Subject
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.workloads.case import Case

ANCHORS = ("anchor/memory", "anchor/compute")
_ORDERS = ("ABBA", "BAAB")
_MOST_REPEATS = 64


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How long things take: ``rounds`` of four trials a case and pair, each trial about ``trial_s``."""

    rounds: int = 6
    trial_s: float = 0.1
    ready_limit_s: float = 600.0
    trial_limit_s: float = 120.0
    cores: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no pair can follow.

        Raises:
          ConfigError: no round, no time for a trial, or no core.
        """
        if self.rounds < 1 or (self.cores is not None and self.cores < 1):
            raise ConfigError(f"{self.rounds} rounds on {self.cores} cores: at least 1 of either is needed.")
        if not (math.isfinite(self.trial_s) and self.trial_s > 0):
            raise ConfigError(f"a trial of {self.trial_s} s is none.")


@dataclass(kw_only=True)
class Pairs:
    """Makes pairs, one after the other. ``evidence`` is each side's word on each case, from the first pair on."""

    base: Side
    head: Side
    cases: Sequence[Case]
    options: PairOptions
    logs: Path
    seed: int
    evidence: dict[str, dict[str, Any]] = field(default_factory=lambda: {"base": {}, "head": {}})
    environments: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)

    def measure(self, number: int, *, stage: int = 1) -> PairRecord:
        """Measure one pair; a pair that breaks says why in ``failed`` and keeps the rounds it has."""
        draw = random.Random(f"{self.seed}-{stage}-{number}")  # noqa: S311  (an order, not a secret)
        first, second = (self.base, self.head) if self.base_first(number, stage) else (self.head, self.base)
        rounds: dict[str, tuple[RoundRecord, ...]] = {}
        failed = None
        try:
            with ExitStack() as stack:
                subjects: dict[str, Subject] = {}
                for side in (first, second):
                    subjects[side.name] = stack.enter_context(self._start(side, number, stage))
                    self._greet(side.name, subjects[side.name])
                for case, order in self._turns(draw):
                    rounds[case] = (*rounds.get(case, ()), self._round(case, order, subjects))
        except MeasurementError as error:
            failed = error.message
        return PairRecord(number=number, first=first.name, stage=stage, rounds=rounds, failed=failed)

    def base_first(self, number: int, stage: int) -> bool:
        """Say whose process is spawned first: drawn by lot, once either way in each two pairs.

        The error rates of ``stats.sequential`` rest on the lot: with it a drift of the machine takes sides by chance.
        """
        block, second = divmod(number - 1, 2)
        lot = random.Random(f"{self.seed}-{stage}-lot-{block}").random() < 0.5  # noqa: S311  (a coin)
        return lot != bool(second)

    def _start(self, side: Side, number: int, stage: int) -> Subject:
        log = self.logs / f"pair-{stage}-{number:02d}-{side.name}.log"
        command = side.command(self.cases, self.options.cores)
        environ = side.child_environ(os.environ)
        return Subject.start(f"{side.name} ({side.label})", command, log=log, environ=environ, cwd=self.logs)

    def _greet(self, side: str, subject: Subject) -> None:
        """Wait until a side is warm, and keep what it says of its cases."""
        told = subject.hear(self.options.ready_limit_s)
        self.environments.setdefault(side, told["environment"])
        for case, seen in told["ready"].items():
            known = self.evidence[side].get(case, seen)
            if "error" in seen and "error" not in known:
                raise MeasurementError(f"{subject.name}: {case} worked before and now says: {seen['error']}")
            if "error" not in known and seen["tokens"] != known["tokens"]:
                raise MeasurementError(f"{subject.name}: {case} generated other tokens than in an earlier process.")
            # An error of the first process may have been the machine's: a later success counts.
            self.evidence[side][case] = seen if "error" in known else known

    def comparable(self) -> tuple[str, ...]:
        """Return the cases that both sides have built."""
        sides = self.evidence.values()
        return tuple(
            case.id for case in self.cases if all("error" not in side.get(case.id, {"error": ""}) for side in sides)
        )

    def _turns(self, draw: random.Random) -> Iterator[tuple[str, str]]:
        """Yield case and order: in every round each case once, in random order, and the anchors between."""
        names = [*self.comparable(), *ANCHORS]
        orders = {name: _balanced(self.options.rounds, draw) for name in names}
        for number in range(self.options.rounds):
            for name in draw.sample(names, len(names)):
                yield name, orders[name][number]

    def _round(self, case: str, order: str, subjects: Mapping[str, Subject]) -> RoundRecord:
        asked = {"case": case, "repeats": self._repeats(case)}
        before, wall, cpu = machine.steal_s(), [], []
        for letter in order:
            subject = subjects["base" if letter == "A" else "head"]
            told = subject.ask(asked, self.options.trial_limit_s)
            if told["compiles"]:
                raise MeasurementError(
                    f"{subject.name}: {case} compiled {told['compiles']} programs while it was timed."
                )
            wall.append(told["wall_s"])
            cpu.append(told["cpu_s"])
        steal = machine.steal_s() - before
        return RoundRecord(order=order, wall_s=tuple(wall), cpu_s=tuple(cpu), steal_s=steal, load=machine.load())

    def _repeats(self, case: str) -> int:
        """Return the requests in a trial: the same for both sides and for all pairs."""
        if case not in self.repeats:
            warm = [side[case]["warm_s"] for side in self.evidence.values() if case in side]
            fits = self.options.trial_s / max(min(warm), 1e-6) if warm else 1
            self.repeats[case] = max(1, min(_MOST_REPEATS, round(fits)))
        return self.repeats[case]


def _balanced(rounds: int, draw: random.Random) -> list[str]:
    """Return an order for each round, both equally often (or one more of either), shuffled."""
    orders = [_ORDERS[number % 2] for number in range(rounds)]
    draw.shuffle(orders)
    return orders
