"""A comparison from start to end: inventory, pairs until the looks decide, confirmation of what would fail.

Everything measured is on disk before the next pair starts: ``comparison.json`` is rewritten, judged, after each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qwenperf.errors import EnvironmentUnfitError, QwenperfError
from qwenperf.gate.comparison import TOO_MANY_BROKEN, judge_comparison
from qwenperf.gate.excuses import Excuse, excuse
from qwenperf.gate.speed import decide_cases, pair_estimates
from qwenperf.lab.compare_restore import restore
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import AfterRound, PairOptions, Pairs
from qwenperf.lab.revisions import same_files
from qwenperf.lab.run_folder import discard, new_run_id, write_text, writing
from qwenperf.lab.sides import Side
from qwenperf.measure.capture_folder import under_way
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.codec import dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, SideEvidence
from qwenperf.schema.reading import decode
from qwenperf.schema.records import Outcome
from qwenperf.stats.confirm import CONFIRM
from qwenperf.stats.sequential import Decision
from qwenperf.stats.spending import LEAST_PAIRS, Plan
from qwenperf.workloads.case import Case

FILE = "comparison.json"


class Listener(Protocol):
    """Who wants to know what is going on."""

    def pair_ended(self, comparison: ComparisonRecord, pair: PairRecord, most: int) -> None:
        """A pair has been measured, as one of at most ``most``."""
        ...

    def looked(self, comparison: ComparisonRecord, look: int, decisions: Mapping[str, Decision]) -> None:
        """The pairs so far were looked at."""
        ...


@dataclass(frozen=True, kw_only=True)
class Until:
    """Ends a comparison of one case once its log ratios are ``enough``, and not at the looks of its plan.

    ``most`` pairs are measured at most; as pairs of ``stage`` 2 they are fresh and have traces taken.
    """

    enough: Callable[[Sequence[float]], bool]
    most: int
    stage: int = 1


@dataclass(kw_only=True)
class Comparison:
    """Runs one comparison; ``run`` returns its judged record. ``stages`` are decisions by stage and case.

    ``most_pairs`` ends it after that many, decided or not; ``limit_s`` begins no pair that would not end in time if
    it took as long as the one before. ``until`` asks another question than the plan. ``earlier`` is the record in
    ``folder`` of the same comparison that was cut short: measuring goes on behind its pairs. ``check`` is asked after
    each pair, and raises where it is not to be kept.
    """

    base: Side
    head: Side
    inventory: Inventory
    plan: Plan
    options: PairOptions
    folder: Path
    listener: Listener
    stop_early: bool = True
    most_pairs: int | None = None
    limit_s: float | None = None
    after_round: AfterRound | None = None
    excuses: Sequence[Excuse] = ()
    until: Until | None = None
    earlier: ComparisonRecord | None = None
    check: Callable[[], None] = lambda: None
    facts: Mapping[str, Any]
    stages: dict[int, Mapping[str, Decision]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with a record in which nothing is measured."""
        self._record = self._new()
        self._begun, self._last_s = time.monotonic(), 0.0
        self._pairs = Pairs(
            base=self.base, head=self.head, cases=self.inventory.shared, options=self.options,
            logs=self.folder / "logs", seed=int(self.folder.name[-6:], 16), after_round=self.after_round,
        )  # fmt: skip
        if self.earlier is not None:
            restore(self._pairs, self.earlier)
            self._record = replace(
                self._record,
                created_at=self.earlier.created_at,
                pairs=self.earlier.pairs,
                cases=tuple(self._compared(case) for case in self.inventory.shared),
            )

    def run(self) -> ComparisonRecord:
        """Measure until every case is decided or the plan ends; an interrupt keeps what there is.

        Raises:
          MachineBusyError: something else is measured on this machine; a folder without pairs is removed.
          EnvironmentUnfitError: ``check`` says so; the pairs of before are kept.
        """
        with writing(Path(tempfile.gettempdir())):
            programs = tempfile.TemporaryDirectory(prefix="qwenperf-pairs-", ignore_cleanup_errors=True)
        with self._discarded_if_empty(), programs as place, under_way(self.folder):
            self._pairs.cache = Path(place)
            self._stages()
            self._keep(over=True)
        return self._record

    @contextmanager
    def _discarded_if_empty(self) -> Iterator[None]:
        """Remove the folder where nothing can be measured, or nothing is written; pairs are kept."""
        try:
            yield
        except (KeyboardInterrupt, QwenperfError) as error:
            unfit = isinstance(error, EnvironmentUnfitError) and not self._record.pairs
            if unfit or not (self.folder / FILE).exists():
                discard(self.folder)
            raise

    def _stages(self) -> None:
        """Measure once the machine is free; an interrupt ends the waiting too."""
        try:
            with one_measurement():
                self._begun = time.monotonic()
                self._measure_stages()
        except KeyboardInterrupt:
            self._record = replace(self._record, interrupted=True)

    def _measure_stages(self) -> None:
        """Measure and decide, then confirm what would fail."""
        if self.until is not None:
            self._measure_until(self.until)
            return
        self._decide(self.plan, stage=1)
        failed = {name for name, one in self.stages.get(1, {}).items() if one.outcome is Outcome.FAIL}
        if failed:
            # Alone and on fresh pairs: what the first stage saw may have been the machine's.
            self._pairs.cases = [case for case in self.inventory.shared if case.id in failed]
            self._decide(CONFIRM, stage=2)

    def _decide(self, plan: Plan, *, stage: int) -> None:
        """Measure pairs up to each look of ``plan`` until all cases of the stage are decided."""
        for look, count in enumerate(plan.looks):
            self._measure(count, stage=stage, most=plan.looks[-1])
            if self._late() and self._whole(stage) < count:
                return
            self.stages[stage] = decide_cases(
                self._record, plan, look=look, stage=stage, earlier=self.stages.get(stage), first=self.stages.get(1)
            )
            self._keep()
            self.listener.looked(self._record, count, self.stages[stage])
            decided = bool(self.stages[stage]) and all(one.final for one in self.stages[stage].values())
            enough = self.most_pairs is not None and count >= self.most_pairs
            if self._hopeless() or enough or (decided and (self.stop_early or stage > 1)):
                return

    def _measure_until(self, until: Until) -> None:
        """Measure pairs until they are enough; beside, the record has what the plan would say of so many."""
        case = self.inventory.shared[0].id

        def told() -> bool:
            values = [one.wall for one in pair_estimates(self._record.pairs, case, until.stage)]
            return bool(values) and until.enough(values)

        while self._whole(until.stage) < until.most and not self._hopeless() and not told():
            self._measure(self._whole(until.stage) + 1, stage=until.stage, most=until.most)
        if not self._hopeless():
            plan = replace(self.plan, looks=(max(LEAST_PAIRS, self._whole(until.stage)),))
            self.stages[1] = decide_cases(self._record, plan, look=0, stage=until.stage)

    def _measure(self, count: int, *, stage: int, most: int) -> None:
        """Add pairs of ``stage`` until there are ``count`` whole ones, or no hope is left."""
        while self._whole(stage) < count and not self._hopeless() and not self._late():
            number = 1 + sum(pair.stage == stage for pair in self._record.pairs)
            begun = time.monotonic()
            pair = self._pairs.measure(number, stage=stage)
            self.check()
            self._last_s = time.monotonic() - begun
            self._record = replace(self._record, pairs=(*self._record.pairs, pair))
            self._keep()
            self.listener.pair_ended(self._record, pair, most)

    def _whole(self, stage: int) -> int:
        return sum(pair.stage == stage and pair.failed is None for pair in self._record.pairs)

    def _late(self) -> bool:
        """Say whether another pair would not end in time."""
        return self.limit_s is not None and time.monotonic() - self._begun + self._last_s > self.limit_s

    def _hopeless(self) -> bool:
        """Say whether too many pairs broke, or both sides have spoken and no case is left to compare."""
        broken = sum(pair.failed is not None for pair in self._record.pairs)
        spoken = all(self._pairs.evidence.values())
        return broken >= TOO_MANY_BROKEN or (spoken and not self._pairs.comparable())

    def _new(self) -> ComparisonRecord:
        plan = {"looks": list(self.plan.looks), "alpha": self.plan.alpha, "margin": self.plan.margin}
        plan |= {"rounds": self.options.rounds, "trial_s": self.options.trial_s, "cores": self.options.cores}
        return ComparisonRecord(
            id=self.folder.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            base=self.base.record(),
            head=self.head.record(),
            plan={**plan, **self.facts.get("plan", {})},
            declared=tuple(case.id for case in self.inventory.shared),
            extra={
                "missing": list(self.inventory.missing),
                "new": list(self.inventory.new),
                "renamed": dict(self.inventory.renamed),
                **self.facts.get("extra", {}),
            },
        )

    def _keep(self, *, over: bool = False) -> None:
        """Put in what the pairs have found out, judge it, and write it down.

        Until it is ``over`` the file says ``interrupted``: so it is where this process is killed.
        """
        environments = self._pairs.environments
        record = replace(
            self._record,
            base=replace(self._record.base, environment=environments.get("base", {})),
            head=replace(self._record.head, environment=environments.get("head", {})),
            cases=tuple(self._compared(case) for case in self.inventory.shared),
            findings=(),
        )
        self._record = excuse(judge_comparison(record, self.stages), self.excuses, datetime.now(UTC).date())
        write_text(self.folder / FILE, dumps(self._record if over else replace(self._record, interrupted=True)))

    def _compared(self, case: Case) -> ComparedCase:
        base, head = (_evidence(self._pairs.evidence[side].get(case.id)) for side in ("base", "head"))
        approximate = sorted({what for side in (self.base, self.head) for what in side.approximate(case)})
        told = {
            "approximate": approximate,
            "traces": self._pairs.traces.files.get(case.id),
            "trace_summaries": self._pairs.traces.summaries.get(case.id),
            "trace_remarks": self._pairs.traces.remarks.get(case.id),
        }
        return ComparedCase(
            id=case.id,
            spec=case.to_json(),
            repeats=self._pairs.repeats.get(case.id, 1),
            base=base,
            head=head,
            extra={name: value for name, value in told.items() if value},
        )


def _evidence(seen: Mapping[str, Any] | None) -> SideEvidence | None:
    if seen is None:
        return None
    evidence: SideEvidence = decode(dict(seen), SideEvidence, "")
    return evidence


def create_folder(out: Path) -> Path:
    """Create a new folder for a comparison below ``out``.

    Raises:
      OutputError: it cannot be made.
    """
    with writing(out):
        folder = out / f"compare-{new_run_id(datetime.now(UTC))}"
        (folder / "logs").mkdir(parents=True)
    return folder


def same_code(base: Side, head: Side) -> bool:
    """Say whether both sides are one tree with one engine, or two that hold the same: what differs is the machine."""
    sides = [(side.engine, side.python, side.instead) for side in (base, head)]
    trees = [(side.root, side.tree and side.tree.root) for side in (base, head)]
    return sides[0] == sides[1] and all(map(_same_tree, *trees))


def _same_tree(old: Path | None, new: Path | None) -> bool:
    return old == new or (old is not None and new is not None and same_files(old, new))
