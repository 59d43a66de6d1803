"""Judges cases and runs: every gate on every case, and never a pass for what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from qwenperf.gate import memory, rotary, scaling, shapes, throughput, tokens
from qwenperf.gate.budget_set import BudgetSet, CaseBudget
from qwenperf.gate.environment import UNKNOWN, environment_class
from qwenperf.gate.limits import check
from qwenperf.gate.verdict import skipped
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict
from qwenperf.workloads.case import REFERENCE_RUNGS
from qwenperf.workloads.suites import SUITES

GATES = (shapes.GATE, tokens.GATE, rotary.GATE, memory.GATE, throughput.GATE, scaling.GATE)
"""Every gate, in the order in which verdicts are shown."""

_OWNED = (shapes.METRIC, throughput.METRIC, scaling.METRIC)
"""Metrics whose budgets a gate of their own judges."""


def judge_case(
    case: CaseRecord, budgets: BudgetSet, peers: Mapping[str, CaseRecord], environment: str = UNKNOWN
) -> tuple[Verdict, ...]:
    """Return the verdicts of all gates on ``case``, and one for each further metric that has a budget.

    ``peers`` are the cases of the same run by id; ``environment`` is the class of the machine, for absolute budgets.
    """
    budget = budgets.for_case(case.id, environment)
    verdicts = [*_gates(case, budget, peers), *_metrics(case, budget)]
    if case.spec.get("engine") in REFERENCE_RUNGS:
        verdicts = [_reference(case, verdict) for verdict in verdicts]
    if case.status is not Status.MEASURED:
        verdicts = [_not_measured(case, verdict) for verdict in verdicts]
    return tuple(verdicts)


def judge_run(run: RunRecord, budgets: BudgetSet) -> RunRecord:
    """Return ``run`` with the verdicts of all gates, and a finding for each budget that matches no case.

    Verdicts and such findings of an earlier judgement are replaced.
    """
    environment = environment_class(run.environment)
    peers = {case.id: case for case in run.cases}
    judge = partial(judge_case, budgets=budgets, peers=peers, environment=environment)
    cases = tuple(replace(case, verdicts=judge(case)) for case in run.cases)
    kept = tuple(finding for finding in run.findings if finding.code != "budget-unmatched")
    known = [*peers, *run.declared, *(case.id for suite in SUITES.values() for case in suite.cases)]
    return replace(run, cases=cases, findings=kept + budgets.unmatched(known))


def _gates(case: CaseRecord, budget: CaseBudget, peers: Mapping[str, CaseRecord]) -> list[Verdict]:
    return [
        shapes.judge(case, budget),
        tokens.judge(case),
        rotary.judge(case),
        memory.judge(case),
        throughput.judge(case, budget, peers),
        scaling.judge(case, budget),
    ]


def _metrics(case: CaseRecord, budget: CaseBudget) -> list[Verdict]:
    """Return one verdict, gate ``budget:<metric>``, for each metric with a budget and no gate of its own."""
    verdicts = []
    for name, limit in budget.limits.items():
        if name in _OWNED:
            continue
        seen = case.metrics.get(name)
        if seen is None:
            verdicts.append(skipped(f"budget:{name}", f"{name} was not measured"))
        else:
            found = check(limit, seen)
            verdicts.append(
                Verdict(gate=f"budget:{name}", outcome=found.outcome, summary=found.text, detail=(limit.origin,))
            )
    outside = {name: reason for name, reason in budget.outside.items() if name not in _OWNED}
    return verdicts + [skipped(f"budget:{name}", f"budget skipped: {reason}") for name, reason in outside.items()]


def _reference(case: CaseRecord, verdict: Verdict) -> Verdict:
    """Keep the tokens of a slow rung judged, and nothing else."""
    if verdict.gate == tokens.GATE:
        return verdict
    return skipped(verdict.gate, f"{case.spec.get('engine')} is a reference rung: it is there to be measured against")


def _not_measured(case: CaseRecord, verdict: Verdict) -> Verdict:
    """Keep a failure that the case left evidence of; everything else about it is not known."""
    if verdict.outcome is Outcome.FAIL:
        return verdict
    reason = f": {case.error.splitlines()[0]}" if case.error else ""
    return skipped(verdict.gate, f"the case was not measured ({case.status.value.replace('_', ' ')}){reason}")
