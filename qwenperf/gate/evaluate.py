"""Judges cases and runs: every gate on every case, and never a pass for what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from qwenperf.gate import carried, memory, rotary, scaling, shapes, throughput, tokens
from qwenperf.gate.budget_set import BudgetSet, CaseBudget
from qwenperf.gate.environment import UNKNOWN, environment_class
from qwenperf.gate.limits import Limit, check
from qwenperf.gate.verdict import ELSEWHERE, NOT_JUDGED, UNMATCHED, skip_reason, skipped, with_skip
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict
from qwenperf.workloads.suites import SUITES

GATES = (shapes.GATE, tokens.GATE, rotary.GATE, memory.GATE, throughput.GATE, scaling.GATE)
"""Every gate on an engine, in the order in which verdicts are shown."""

STEP_GATES = (shapes.GATE, carried.GATE)
"""The gates on a function that hands state on to itself; those of engines that have a budget judge it too."""

_METRIC_OF = {gate.GATE: gate.METRIC for gate in (shapes, throughput, scaling)}
_OWNED = tuple(_METRIC_OF.values())
"""Metrics whose budgets a gate of their own judges."""


def judge_case(
    case: CaseRecord, budgets: BudgetSet, peers: Mapping[str, CaseRecord], environment: str = UNKNOWN
) -> tuple[Verdict, ...]:
    """Return the verdicts of all gates on ``case``, and one for each further metric that has a budget.

    ``peers`` are the cases of the same run by id; ``environment`` is the class of the machine, for absolute budgets.
    """
    budget = budgets.for_case(case.id, environment)
    gates = [_declared(verdict, budget) for verdict in _gates(case, budget, peers)]
    if case.spec.get("reference"):
        gates = [_reference(case, verdict, budget) for verdict in gates]
    gates = [_on_purpose(case, verdict, budget) for verdict in gates]
    verdicts = [*gates, *_metrics(case, budget)]
    if case.status is not Status.MEASURED:
        verdicts = [_not_measured(case, verdict) for verdict in verdicts]
    return tuple(verdicts)


def judge_run(run: RunRecord, budgets: BudgetSet) -> RunRecord:
    """Return ``run`` with the verdicts of all gates, and a finding for each budget that matches no case.

    Verdicts and such findings of an earlier judgement are replaced, but for what failed in a test: its limits are in
    its code, and not in the record.
    """
    environment = environment_class(run.environment)
    peers = {case.id: case for case in run.cases}
    judge = partial(judge_case, budgets=budgets, peers=peers, environment=environment)
    cases = tuple(replace(case, verdicts=_with_test(case, judge(case))) for case in run.cases)
    kept = tuple(finding for finding in run.findings if finding.code != UNMATCHED)
    known = [*peers, *run.declared, *(case.id for suite in SUITES.values() for case in suite.cases)]
    return replace(run, cases=cases, findings=kept + budgets.unmatched(known))


def _with_test(case: CaseRecord, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Keep what a test was failed for, where its case as such has no such failure."""
    if "test" not in case.spec:
        return verdicts
    own = {one.gate: one for one in case.verdicts if one.outcome is Outcome.FAIL or skip_reason(one) == NOT_JUDGED}
    judged = [one if one.outcome is Outcome.FAIL else own.get(one.gate, one) for one in verdicts]
    known = {one.gate for one in verdicts}
    return (*judged, *(one for gate, one in own.items() if gate not in known))


def _gates(case: CaseRecord, budget: CaseBudget, peers: Mapping[str, CaseRecord]) -> list[Verdict]:
    if "step" in case.spec:
        return _step_gates(case, budget, peers)
    return [
        shapes.judge(case, budget),
        tokens.judge(case),
        rotary.judge(case),
        memory.judge(case),
        throughput.judge(case, budget, peers),
        scaling.judge(case, budget),
    ]


def _step_gates(case: CaseRecord, budget: CaseBudget, peers: Mapping[str, CaseRecord]) -> list[Verdict]:
    """Judge a step; a budget that only engines can keep is not left out, and so is not judged."""
    verdicts = [shapes.judge(case, budget), carried.judge(case)]
    speed = budget.min_times is not None or budget.min_roofline_share is not None
    if speed or throughput.METRIC in budget.limits:
        verdicts.append(throughput.judge(case, budget, peers))
    if scaling.METRIC in budget.limits:
        verdicts.append(scaling.judge(case, budget))
    return verdicts


def _declared(verdict: Verdict, budget: CaseBudget) -> Verdict:
    """Mark a gate that was skipped though its metric has a budget."""
    declared = _METRIC_OF.get(verdict.gate) in budget.limits
    return with_skip(verdict, NOT_JUDGED) if declared and verdict.outcome is Outcome.SKIPPED else verdict


def _metrics(case: CaseRecord, budget: CaseBudget) -> list[Verdict]:
    """Return one verdict, gate ``budget:<metric>``, for each metric with a budget and no gate of its own."""
    limits = {name: limit for name, limit in budget.limits.items() if name not in _OWNED}
    outside = {name: reason for name, reason in budget.outside.items() if name not in _OWNED}
    skips = [skipped(f"budget:{name}", f"budget skipped: {reason}") for name, reason in outside.items()]
    return [*(_metric(case, limit) for limit in limits.values()), *(with_skip(one, ELSEWHERE) for one in skips)]


def _metric(case: CaseRecord, limit: Limit) -> Verdict:
    gate, seen = f"budget:{limit.metric}", case.metrics.get(limit.metric)
    if seen is None:
        advice = "Drop the budget, or measure the case in a way that gives this metric."
        return with_skip(skipped(gate, f"{limit.metric} was not measured", [limit.origin], advice), NOT_JUDGED)
    found = check(limit, seen)
    data = {} if found.smallest_effect is None else {"smallest_effect": found.smallest_effect}
    return Verdict(gate=gate, outcome=found.outcome, summary=found.text, detail=(limit.origin,), data=data)


def _reference(case: CaseRecord, verdict: Verdict, budget: CaseBudget) -> Verdict:
    """Excuse a slow rung from stable shapes and flat steps, unless a budget asks for them or a call was refused."""
    if verdict.gate not in {shapes.GATE, scaling.GATE} or _METRIC_OF[verdict.gate] in budget.limits:
        return verdict
    if verdict.gate == shapes.GATE and any(event.refused for event in case.evidence.compiles):
        return verdict
    return skipped(verdict.gate, f"{case.spec.get('engine')} is a reference rung, there to be measured against")


def _on_purpose(case: CaseRecord, verdict: Verdict, budget: CaseBudget) -> Verdict:
    """Excuse an engine from a gate that finds what the engine's name asks for, and keep what the gate says.

    A budget that asks for the metric and a refused call are no part of what was asked for.
    """
    stated = case.spec.get("on_purpose")
    causes = stated.get(verdict.gate) if isinstance(stated, Mapping) else None
    refused = any(event.refused for event in case.evidence.compiles)
    if not causes or verdict.outcome is not Outcome.FAIL or refused or _METRIC_OF.get(verdict.gate) in budget.limits:
        return verdict
    return skipped(verdict.gate, f"on purpose ({', '.join(causes)}): {verdict.summary}")


def _not_measured(case: CaseRecord, verdict: Verdict) -> Verdict:
    """Keep a failure that the case left evidence of; everything else about it is not known."""
    if verdict.outcome is Outcome.FAIL:
        return verdict
    reason = f": {case.error.splitlines()[0]}" if case.error else ""
    return skipped(verdict.gate, f"the case was not measured ({case.status.value.replace('_', ' ')}){reason}")
