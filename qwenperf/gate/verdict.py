"""Verdicts: how gates make them, which one counts, and the exit code of a run.

Knows nothing of any single gate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, QwenperfError, UsageError
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict

FINE, FAILED, INCONCLUSIVE, INTERRUPTED = 0, 1, 3, 130
USAGE, UNFIT = UsageError.exit_code, EnvironmentUnfitError.exit_code
NOT_MEASURED, INTERNAL = MeasurementError.exit_code, QwenperfError.exit_code

PRECEDENCE = (INTERRUPTED, INTERNAL, USAGE, NOT_MEASURED, FAILED, UNFIT, INCONCLUSIVE, FINE)
"""Exit codes, the one that wins first."""

UNMATCHED = "budget-unmatched"
"""The code of the finding that a budget matches no case."""

_WORST_FIRST = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.IMPROVED, Outcome.PASS, Outcome.SKIPPED)


def passed(gate: str, summary: str, detail: Iterable[str] = (), **data: Any) -> Verdict:
    """Return a verdict that the gate's rule is kept."""
    return Verdict(gate=gate, outcome=Outcome.PASS, summary=summary, detail=tuple(detail), data=data)


def failed(gate: str, summary: str, detail: Iterable[str] = (), advice: str = "", **data: Any) -> Verdict:
    """Return a verdict that the gate's rule is broken; ``advice`` says what to do."""
    return Verdict(gate=gate, outcome=Outcome.FAIL, summary=summary, detail=tuple(detail), advice=advice, data=data)


def skipped(gate: str, summary: str, detail: Iterable[str] = (), advice: str = "", **data: Any) -> Verdict:
    """Return a verdict that could not be reached; ``summary`` says what is missing, ``advice`` how to get it."""
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, summary=summary, detail=tuple(detail), advice=advice, data=data)


def inconclusive(gate: str, summary: str, detail: Iterable[str] = (), advice: str = "", **data: Any) -> Verdict:
    """Return a verdict that noise hides; ``summary`` says the smallest effect that could have been seen."""
    return Verdict(
        gate=gate, outcome=Outcome.INCONCLUSIVE, summary=summary, detail=tuple(detail), advice=advice, data=data
    )


NOT_JUDGED, ELSEWHERE = "not judged", "elsewhere"
"""Why a declared budget has no verdict: nothing was measured for it, or it does not hold in this run.

A budget holds elsewhere that was set for other machines, or that compares with a rung which the run was not asked for.
"""


def with_skip(verdict: Verdict, reason: str) -> Verdict:
    """Return ``verdict`` saying that a declared budget behind it was not judged, for one of the reasons above."""
    return replace(verdict, data={**verdict.data, "budget": reason})


def skip_reason(verdict: Verdict) -> str:
    """Return why a declared budget behind ``verdict`` was not judged; empty when all were, or none is declared."""
    return str(verdict.data.get("budget", ""))


def worst(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the outcome that stands for all: fail, inconclusive, improved, pass; skipped only when all are.

    ``None`` when there is none: nobody has judged.
    """
    seen = set(outcomes)
    return next((outcome for outcome in _WORST_FIRST if outcome in seen), None)


def strongest(codes: Iterable[int]) -> int:
    """Return the exit code that wins; a code that nobody knows counts as an internal error."""
    known = {code if code in PRECEDENCE else INTERNAL for code in codes}
    return next((code for code in PRECEDENCE if code in known), FINE)


def exit_code(run: RunRecord, inconclusive: str = "warn", others: Iterable[int] = ()) -> int:
    """Return what the command ends with: 130, 70, 2, 5, 1, 4, 3 or 0, the first that holds.

    ``inconclusive`` is ``warn`` (0) or ``fail`` (3). ``others`` are codes that the run does not know of, such as
    that of an error that ended a case. A declared budget for which nothing was measured, and one that matches no case
    that anybody knows, count as 5. A case that was not measured counts as 5, unless a gate failed on what it left
    behind (a refused call): then the gate says more.
    """
    codes = [FINE, *others, *(_code_of_case(case, inconclusive) for case in run.cases)]
    if any(finding.code == UNMATCHED for finding in run.findings):
        codes.append(NOT_MEASURED)
    if run.interrupted:
        codes.append(INTERRUPTED)
    if not any(case.status is Status.MEASURED for case in run.cases) and FAILED not in codes:
        codes.append(NOT_MEASURED)
    if set(run.declared) - {case.id for case in run.cases}:
        codes.append(NOT_MEASURED)
    return strongest(codes)


def _code_of_case(case: CaseRecord, inconclusive: str) -> int:
    outcome = worst(verdict.outcome for verdict in case.verdicts)
    if outcome is Outcome.FAIL:
        return FAILED
    if case.status is not Status.MEASURED:
        return NOT_MEASURED
    if any(skip_reason(verdict) == NOT_JUDGED for verdict in case.verdicts):
        return NOT_MEASURED
    return INCONCLUSIVE if outcome is Outcome.INCONCLUSIVE and inconclusive == "fail" else FINE
