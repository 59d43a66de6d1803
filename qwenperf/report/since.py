"""A failure of throughput beside an earlier run that kept its budget: what takes longer since, by their traces.

Pure: records in, a record out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from qwenperf.gate.differences import environment_key
from qwenperf.gate.throughput import GATE
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Verdict
from qwenperf.traces.diff import top_lines

MOST_READ = 20
"""Runs that are worth looking through: older ones differ in more than what is looked for."""


Earlier = Callable[[str], Iterable[RunRecord]]
"""Gives the runs before the one of an id, the newest first."""


def explain_since(run: RunRecord, earlier: Earlier) -> RunRecord:
    """Return ``run``; failed verdicts on throughput say what takes longer than in the run before that passed.

    ``earlier`` is asked only where something failed, and for no more runs than are needed.
    """
    return replace(run, cases=tuple(_explained(run, case, earlier) for case in run.cases))


def _explained(run: RunRecord, case: CaseRecord, earlier: Earlier) -> CaseRecord:
    if case.evidence.trace_summary is None or not any(map(_failed, case.verdicts)):
        return case
    before = _passed(run, case.id, earlier)
    if before is None:
        return case
    name, base = before
    told = top_lines(base.evidence.trace_summary, case.evidence.trace_summary)
    lines = tuple(f"since {name}: {line}" for line in told)
    verdicts = (replace(one, detail=(*one.detail, *lines)) if _failed(one) else one for one in case.verdicts)
    return replace(case, verdicts=tuple(verdicts))


def _passed(run: RunRecord, case_id: str, earlier: Earlier) -> tuple[str, CaseRecord] | None:
    """Return the case in the newest run of this machine in which it kept its budget and was traced, with its id."""
    machine = environment_key(run.environment)
    for before in islice(earlier(run.id), MOST_READ):
        here = environment_key(before.environment) == machine
        for case in (one for one in before.cases if here and one.id == case_id):
            kept = any(one.gate == GATE and one.outcome is Outcome.PASS for one in case.verdicts)
            if kept and case.evidence.trace_summary is not None:
                return before.id, case
    return None


def _failed(verdict: Verdict) -> bool:
    return verdict.gate == GATE and verdict.outcome is Outcome.FAIL
