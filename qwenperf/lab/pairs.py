"""Process pairs: two fresh processes, one of each side, timed by turns and never at the same time.

A pair is the unit of the decision. Its rounds are neighbours in time (ABBA or BAAB, in equal numbers and random
order), so that what slows the machine for a while slows both sides; a new pair draws anew what a process keeps for
life, such as where its memory lies. Nothing is timed before both sides are warm, so they start and build at once.

Programs are compiled in the first pair of a stage, by each side for itself, and loaded in all others; of a program that
both sides have, both load the same copy. The confirmation compiles anew, so that no luck of a compiler is confirmed.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError, MeasurementError
from qwenperf.lab import machine
from qwenperf.lab.pair_traces import PairTraces
from qwenperf.lab.share_programs import share_programs
from qwenperf.lab.sides import Side
from qwenperf.lab.subject import Subject
from qwenperf.schema.comparison import PairRecord, RoundRecord
from qwenperf.workloads.case import Case

AfterRound = Callable[[str, Mapping[str, Subject]], None]

ANCHORS = ("anchor/memory", "anchor/compute")
_ORDERS = ("ABBA", "BAAB")
_MOST_REPEATS = 64


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How long things take: ``rounds`` of four trials a case and pair, each trial about ``trial_s``.

    ``anchors``: whether the kernels that no change touches are timed in between.
    """

    rounds: int = 6
    trial_s: float = 0.1
    ready_limit_s: float = 600.0
    trial_limit_s: float = 120.0
    cores: int | None = None
    anchors: bool = True

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
    """Makes pairs, one after the other. ``evidence`` is each side's word on each case, from the first pair on.

    ``cache`` is a folder for compiled programs; without one each process compiles its own. ``loaded`` are fingerprints
    of what a side's first process to load programs has loaded, by (stage, side, case); ``compiled`` are the stages
    whose programs are in the cache. ``traces`` are profiles of what would fail. ``after_round`` is called with case and
    subjects between two rounds.
    """

    base: Side
    head: Side
    cases: Sequence[Case]
    options: PairOptions
    logs: Path
    seed: int
    evidence: dict[str, dict[str, Any]] = field(default_factory=lambda: {"base": {}, "head": {}})
    environments: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    cache: Path | None = None
    loaded: dict[tuple[int, str, str], Mapping[str, str]] = field(default_factory=dict)
    compiled: set[int] = field(default_factory=set)
    traces: PairTraces = field(default_factory=PairTraces)
    after_round: AfterRound | None = None

    def measure(self, number: int, *, stage: int = 1) -> PairRecord:
        """Measure one pair; a pair that breaks says why in ``failed`` and keeps the rounds it has."""
        draw = random.Random(f"{self.seed}-{stage}-{number}")  # noqa: S311  (an order, not a secret)
        first, second = (self.base, self.head) if self.base_first(number, stage) else (self.head, self.base)
        rounds: dict[str, tuple[RoundRecord, ...]] = {}
        told: dict[str, Any] = {}
        failed = None
        try:
            with ExitStack() as stack:
                subjects, told = self._ready((first, second), number, stage, stack)
                self._settle(subjects)
                for case, order in self._turns(draw, first.name):
                    rounds[case] = (*rounds.get(case, ()), self._round(case, order, subjects))
                    if self.after_round is not None:
                        self.after_round(case, subjects)
                if stage > 1 and number == 1:
                    self.traces.take(self.comparable(), subjects, self.logs.parent, self.options.trial_limit_s)
        except MeasurementError as error:
            failed = error.message
        return PairRecord(number=number, first=first.name, stage=stage, rounds=rounds, failed=failed, extra=told)

    def base_first(self, number: int, stage: int) -> bool:
        """Say whose process is spawned first: drawn by lot, once either way in each two pairs.

        The error rates of ``stats.sequential`` rest on the lot: with it a drift of the machine takes sides by chance.
        """
        block, second = divmod(number - 1, 2)
        lot = random.Random(f"{self.seed}-{stage}-lot-{block}").random() < 0.5  # noqa: S311  (a coin)
        return lot != bool(second)

    def _ready(
        self, order: Sequence[Side], number: int, stage: int, stack: ExitStack
    ) -> tuple[dict[str, Subject], dict[str, Any]]:
        """Start both sides in ``order``, wait until both are warm, and say how long that took and what was compiled."""
        begun = time.monotonic()
        subjects = {side.name: stack.enter_context(self._start(side, number, stage)) for side in order}
        compiled = {side.name: self._greet(side.name, subjects[side.name], stage) for side in order}
        if self.cache is not None and stage not in self.compiled:
            share_programs(*(self._programs(side, stage) for side in order), into=self.cache / f"stage-{stage}")
            self.compiled.add(stage)
        return subjects, {"ready_s": round(time.monotonic() - begun, 3), "compiled": compiled}

    def _start(self, side: Side, number: int, stage: int) -> Subject:
        log = self.logs / f"pair-{stage}-{number:02d}-{side.name}.log"
        known = [case for case, seen in self.evidence[side.name].items() if "error" not in seen]
        command = side.command(self.cases, self.options.cores, known)
        environ = side.child_environ(os.environ, self._programs(side, stage))
        return Subject.start(f"{side.name} ({side.label})", command, log=log, environ=environ, cwd=self.logs)

    def _programs(self, side: Side, stage: int) -> Path | None:
        """Return the folder of a side's programs: its own until both have compiled, then the one that they share."""
        if self.cache is None:
            return None
        return self.cache / (f"stage-{stage}" if stage in self.compiled else f"stage-{stage}-{side.name}")

    def _greet(self, side: str, subject: Subject, stage: int) -> int | None:
        """Wait until a side is warm, and keep what it says of its cases; return how many programs it had to compile."""
        told = subject.hear(self.options.ready_limit_s)
        self.environments.setdefault(side, told["environment"])
        self.traces.hear(side, told)
        for case, seen in told["ready"].items():
            known = self.evidence[side].get(case, seen)
            if "error" in seen and "error" not in known:
                raise MeasurementError(f"{subject.name}: {case} worked before and now says: {seen['error']}")
            if "error" not in known and seen["tokens"] != known["tokens"]:
                raise MeasurementError(f"{subject.name}: {case} generated other tokens than in an earlier process.")
            if stage in self.compiled and seen.get("programs"):
                self._check_programs(subject, (stage, side, case), seen["programs"])
            # An error of the first process may have been the machine's: a later success counts.
            self.evidence[side][case] = seen if "error" in known else known
        compiled: int | None = told.get("missed")
        return compiled

    def _check_programs(self, subject: Subject, key: tuple[int, str, str], now: Mapping[str, str]) -> None:
        """Refuse a process that runs other programs than the first that loaded them: its pair is of something else."""
        first = self.loaded.setdefault(key, now)
        other = sorted(name for name in {*first} & {*now} if first[name] != now[name])
        if other:
            raise MeasurementError(
                f"{subject.name}: {key[-1]} runs another {' and '.join(other)} than in an earlier process."
            )

    def _settle(self, subjects: Mapping[str, Subject]) -> None:
        """Run each case once on either side, uncounted: a side that was ready first has idled since.

        The first pair also finds out how many requests make a trial, the same for both sides and for all pairs.
        """
        for case in self._timed():
            turns = 1 if case in self.repeats else 2
            seen = [self._ask(subject, case, 1)["wall_s"] for _ in range(turns) for subject in subjects.values()]
            fits = 1 if case in ANCHORS else round(self.options.trial_s / max(min(seen), 1e-6))
            self.repeats.setdefault(case, max(1, min(_MOST_REPEATS, fits)))

    def comparable(self) -> tuple[str, ...]:
        """Return the cases that both sides have built."""
        sides = self.evidence.values()
        return tuple(
            case.id for case in self.cases if all("error" not in side.get(case.id, {"error": ""}) for side in sides)
        )

    def _timed(self) -> tuple[str, ...]:
        """Return what is timed in every round."""
        return (*self.comparable(), *(ANCHORS if self.options.anchors else ()))

    def _turns(self, draw: random.Random, first: str) -> Iterator[tuple[str, str]]:
        """Yield case and order: in every round each case once, in random order, and the anchors between."""
        names = self._timed()
        orders = {name: _balanced(self.options.rounds, draw, first) for name in names}
        for number in range(self.options.rounds):
            for name in draw.sample(names, len(names)):
                yield name, orders[name][number]

    def _round(self, case: str, order: str, subjects: Mapping[str, Subject]) -> RoundRecord:
        trials, stolen, loads = [], [], []
        for letter in order:
            before = machine.steal_s()
            trials.append(self._ask(subjects["base" if letter == "A" else "head"], case, self.repeats[case]))
            stolen.append(round(machine.steal_s() - before, 3))
            loads.append(machine.load())
        wall, cpu = (tuple(one[name] for one in trials) for name in ("wall_s", "cpu_s"))
        by_trial = {"steal_s": stolen, "load": loads}
        return RoundRecord(
            order=order, wall_s=wall, cpu_s=cpu, steal_s=sum(stolen), load=loads[-1], extra={"trials": by_trial}
        )

    def _ask(self, subject: Subject, case: str, repeats: int) -> Mapping[str, Any]:
        told = subject.ask({"case": case, "repeats": repeats}, self.options.trial_limit_s)
        if told["compiles"]:
            raise MeasurementError(f"{subject.name}: {case} compiled {told['compiles']} programs while it was timed.")
        return told


def _balanced(rounds: int, draw: random.Random, first: str) -> list[str]:
    """Return an order for each round, both equally often, shuffled; of an odd number the lot's side begins one more."""
    both = _ORDERS if first == "base" else _ORDERS[::-1]
    orders = [both[number % 2] for number in range(rounds)]
    draw.shuffle(orders)
    return orders
