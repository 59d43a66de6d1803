"""A failure of throughput beside the newest earlier run that kept its budget: what takes longer since, by their traces.

Reads the records of runs in one folder, and only when something failed. What cannot be read explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.errors import RecordError
from qwenperf.gate.differences import environment_key
from qwenperf.gate.throughput import GATE
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Verdict
from qwenperf.traces.diff import top_lines

MOST_READ = 20
"""Runs that are looked through: older ones differ in more than what is looked for."""


@dataclass(kw_only=True)
class EarlierTraces:
    """The runs in the folder ``out``, each read once."""

    out: Path
    known: dict[Path, RunRecord | None] = field(default_factory=dict)

    def explain(self, run: RunRecord) -> RunRecord:
        """Return ``run``; failed verdicts on throughput say what takes longer than in the run before that passed."""
        return replace(run, cases=tuple(self._explained(run, case) for case in run.cases))

    def _explained(self, run: RunRecord, case: CaseRecord) -> CaseRecord:
        if case.evidence.trace_summary is None or not any(map(_failed, case.verdicts)):
            return case
        before = next(self._passed(run, case.id), None)
        if before is None:
            return case
        name, base = before
        told = top_lines(base.evidence.trace_summary, case.evidence.trace_summary)
        lines = tuple(f"since {name}: {line}" for line in told)
        verdicts = (replace(one, detail=(*one.detail, *lines)) if _failed(one) else one for one in case.verdicts)
        return replace(case, verdicts=tuple(verdicts))

    def _passed(self, run: RunRecord, case_id: str) -> Iterator[tuple[str, CaseRecord]]:
        """Yield the case in earlier runs of this machine in which it kept its budget and was traced, newest first."""
        machine = environment_key(run.environment)
        for earlier in self._earlier(run.id):
            here = environment_key(earlier.environment) == machine
            for case in (one for one in earlier.cases if here and one.id == case_id):
                kept = any(one.gate == GATE and one.outcome is Outcome.PASS for one in case.verdicts)
                if kept and case.evidence.trace_summary is not None:
                    yield earlier.id, case

    def _earlier(self, run_id: str) -> Iterator[RunRecord]:
        """Yield the runs before ``run_id``, whose names begin with the time, the newest first."""
        places = sorted((file for file in self.out.glob(f"*/{RECORD}") if file.parent.name < run_id), reverse=True)
        for place in places[:MOST_READ]:
            if place not in self.known:
                self.known[place] = _read(place)
            record = self.known[place]
            if record is not None:
                yield record


def _failed(verdict: Verdict) -> bool:
    return verdict.gate == GATE and verdict.outcome is Outcome.FAIL


def _read(place: Path) -> RunRecord | None:
    try:
        return read_run(place)[0]
    except RecordError:
        return None
