"""A comparison from start to end: inventory, pairs until the looks decide, confirmation of what would fail.

Everything measured is on disk before the next pair starts: ``comparison.json`` is rewritten, judged, after each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qwenperf.gate.comparison import judge_comparison
from qwenperf.gate.excuses import Excuse, excuse
from qwenperf.gate.speed import CONFIRM, decide_cases
from qwenperf.lab.inventory import Inventory
from qwenperf.lab.pairs import PairOptions, Pairs
from qwenperf.lab.run_folder import new_run_id, write_text, writing
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, SideEvidence
from qwenperf.schema.reading import decode
from qwenperf.schema.records import Outcome
from qwenperf.stats.sequential import Decision
from qwenperf.stats.spending import Plan
from qwenperf.workloads.case import Case

_MOST_BROKEN = 3
"""Pairs that may break before nothing more is tried."""


class Listener(Protocol):
    """Who wants to know what is going on."""

    def pair_ended(self, comparison: ComparisonRecord, pair: PairRecord, most: int) -> None:
        """A pair has been measured, as one of at most ``most``."""
        ...

    def looked(self, comparison: ComparisonRecord, look: int, decisions: Mapping[str, Decision]) -> None:
        """The pairs so far were looked at."""
        ...


@dataclass(kw_only=True)
class Comparison:
    """Runs one comparison; ``run`` returns its judged record."""

    base: Side
    head: Side
    inventory: Inventory
    plan: Plan
    options: PairOptions
    folder: Path
    listener: Listener
    stop_early: bool = True
    excuses: Sequence[Excuse] = ()
    facts: Mapping[str, Any]

    def run(self) -> ComparisonRecord:
        """Measure until every case is decided or the plan ends; an interrupt keeps what there is."""
        record = self._new()
        pairs = Pairs(
            base=self.base, head=self.head, cases=self.inventory.shared, options=self.options,
            logs=self.folder / "logs", seed=int(record.id[-6:], 16),
        )  # fmt: skip
        stages: dict[int, Mapping[str, Decision]] = {}
        try:
            for look, count in enumerate(self.plan.looks):
                record = self._measure(record, pairs, count, stage=1, most=self.plan.looks[-1])
                stages[1] = decide_cases(record, self.plan, look=look, earlier=stages.get(1))
                record = self._keep(record, pairs, stages)
                self.listener.looked(record, count, stages[1])
                if self._broken(record) or (self.stop_early and _all_decided(stages[1])):
                    break
            record = self._confirm(record, pairs, stages)
        except KeyboardInterrupt:
            record = replace(record, interrupted=True)
        return self._keep(record, pairs, stages)

    def _confirm(
        self, record: ComparisonRecord, pairs: Pairs, stages: dict[int, Mapping[str, Decision]]
    ) -> ComparisonRecord:
        """Measure what would fail again, alone and on fresh pairs; ``stages`` gets what they say."""
        failed = {name for name, decision in stages.get(1, {}).items() if decision.outcome is Outcome.FAIL}
        if not failed:
            return record
        pairs.cases = [case for case in self.inventory.shared if case.id in failed]
        for look, count in enumerate(CONFIRM.looks):
            record = self._measure(record, pairs, count, stage=2, most=CONFIRM.looks[-1])
            stages[2] = decide_cases(record, CONFIRM, look=look, stage=2, earlier=stages.get(2))
            if self._broken(record) or _all_decided(stages[2]):
                break
        return record

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

    def _measure(
        self, record: ComparisonRecord, pairs: Pairs, count: int, *, stage: int, most: int
    ) -> ComparisonRecord:
        """Add pairs of ``stage`` until there are ``count`` whole ones, or too many broke."""
        while _whole(record, stage) < count and not self._broken(record):
            number = 1 + sum(pair.stage == stage for pair in record.pairs)
            pair = pairs.measure(number, stage=stage)
            record = self._keep(replace(record, pairs=(*record.pairs, pair)), pairs, {})
            self.listener.pair_ended(record, pair, most)
            if not pairs.comparable() and pairs.evidence["head"]:
                break
        return record

    def _broken(self, record: ComparisonRecord) -> bool:
        return sum(pair.failed is not None for pair in record.pairs) >= _MOST_BROKEN

    def _keep(
        self, record: ComparisonRecord, pairs: Pairs, stages: Mapping[int, Mapping[str, Decision]]
    ) -> ComparisonRecord:
        """Put in what the pairs have found out, judge it, and write it down."""
        record = replace(
            record,
            base=replace(record.base, environment=pairs.environments.get("base", {})),
            head=replace(record.head, environment=pairs.environments.get("head", {})),
            cases=tuple(_compared(case, pairs) for case in self.inventory.shared),
            findings=(),
        )
        record = excuse(judge_comparison(record, stages), self.excuses, datetime.now(UTC).date())
        write_text(self.folder / "comparison.json", dumps(record))
        return record


def _all_decided(decisions: Mapping[str, Decision]) -> bool:
    return bool(decisions) and all(decision.final for decision in decisions.values())


def _whole(record: ComparisonRecord, stage: int) -> int:
    return sum(pair.stage == stage and pair.failed is None for pair in record.pairs)


def _compared(case: Case, pairs: Pairs) -> ComparedCase:
    base, head = (_evidence(pairs.evidence[side].get(case.id)) for side in ("base", "head"))
    repeats = pairs.repeats.get(case.id, 1)
    return ComparedCase(id=case.id, spec=case.to_json(), repeats=repeats, base=base, head=head)


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
    """Say whether both sides are one tree with one engine: whatever differs then is the machine."""
    return base.root == head.root and base.engine == head.engine and base.python == head.python
