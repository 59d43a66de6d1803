"""Judges compiled programs, each for a chip that need not be there: does it compile, fit, alias, keep its budgets.

Reads records only. What a program is compared with is ``aot_difference``'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from qwenperf import units
from qwenperf.gate import verdict as verdict_module
from qwenperf.gate.aot_budget import ProgramBudget, ProgramBudgets
from qwenperf.gate.aot_causes import arguments, causes
from qwenperf.gate.aot_facts import FACTS, was_read
from qwenperf.gate.aot_pitfalls import CODES, pitfalls
from qwenperf.gate.aot_words import refusal, where
from qwenperf.gate.excuses import is_excused
from qwenperf.gate.limits import Limit, Reading, compare
from qwenperf.gate.verdict import ELSEWHERE, NOT_JUDGED, failed, passed, skip_reason, skipped, with_skip
from qwenperf.schema.analysis import AotCase, AotRecord, Fit
from qwenperf.schema.records import Finding, Outcome, Severity, Status, Verdict

COMPILES, MEMORY, DONATION, KERNELS = "compiles", "memory", "donation", "kernels"

UNMATCHED = "program-budget-unmatched"
_OUT_OF_HBM = re.compile(
    r"RESOURCE_EXHAUSTED.*\bhbm\b|Ran out of memory in memory space hbm", re.IGNORECASE | re.DOTALL
)
_MOST_CAUSES = 4

_DONATE = (
    "Return each donated array with the shape, dtype, sharding and layout that it came with, and do not read the old "
    "one after the new one was made."
)
_SMALLER = "Shard it over more chips, shorten the cache, or hold weights and cache in a narrower type."


def judge(record: AotRecord, budgets: ProgramBudgets) -> AotRecord:
    """Return ``record`` with the verdicts of all gates, known pitfalls, and a note on budgets that match no program."""
    cases = tuple(_judged(case, budgets.for_program(case.id)) for case in record.cases)
    kept = tuple(finding for finding in record.findings if finding.code != UNMATCHED)
    unmatched = budgets.unmatched((*record.declared, *(case.id for case in record.cases)))
    return replace(record, cases=cases, findings=(*kept, *_unmatched(unmatched)))


def _judged(case: AotCase, budget: ProgramBudget) -> AotCase:
    told = tuple(finding for finding in case.findings if finding.code not in CODES)
    return replace(case, verdicts=judge_case(case, budget), findings=(*told, *pitfalls(case)))


def judge_case(case: AotCase, budget: ProgramBudget) -> tuple[Verdict, ...]:
    """Return the verdicts on one program for one target: always the first three gates, then what has a budget."""
    if case.status is not Status.MEASURED or case.program is None:
        return tuple(_not_compiled(case, budget))
    donation = _unstable(DONATION, "unaliased_donations", case) or _donation(case)
    verdicts = [passed(COMPILES, f"{where(case)}: compiled"), _memory(case, budget), donation]
    if budget.kernels is not None:
        verdicts.append(_unstable(KERNELS, "kernels", case) or _kernels(case, budget.kernels))
    return (*(one for one in verdicts if one is not None), *(_limited(case, one) for one in budget.limits.values()))


def exit_code(record: AotRecord) -> int:
    """Return what the command ends with: 130, 70, 2, 5, 1, 4 or 0, the first that holds.

    A program that the compiler refuses is a failure (1). One that nothing was learnt of counts as its error says (a
    layout that the compiler does not know: 4), else as not measured (5): so does one whose compiler is not here while
    that of another target is, and a budget that could not be judged.
    """
    codes = [verdict_module.FINE]
    for case in record.cases:
        outcomes = {verdict.outcome for verdict in case.verdicts if not is_excused(verdict)}
        if Outcome.FAIL in outcomes:
            codes.append(verdict_module.FAILED)
        elif case.status is not Status.MEASURED:
            codes.append(int(case.extra.get("exit_code", verdict_module.NOT_MEASURED)))
        if any(skip_reason(verdict) == NOT_JUDGED for verdict in case.verdicts):
            codes.append(verdict_module.NOT_MEASURED)
    if not record.cases or set(record.declared) - {case.id for case in record.cases}:
        codes.append(verdict_module.NOT_MEASURED)
    if record.interrupted:
        codes.append(verdict_module.INTERRUPTED)
    return verdict_module.strongest(codes)


def is_refused(case: AotCase) -> bool:
    """Say whether the compiler answered and said no; a crash, a time-out and a missing compiler say nothing."""
    return case.status is Status.FAILED and not case.extra.get("crashed")


def _not_compiled(case: AotCase, budget: ProgramBudget) -> Iterator[Verdict]:
    told = case.error or case.status.value.replace("_", " ")
    if not is_refused(case):
        yield skipped(COMPILES, f"{where(case)}: not compiled: {refusal(told)}")
    elif not (_OUT_OF_HBM.search(told) or (case.fit is not None and not case.fit.fits)):
        yield failed(COMPILES, f"{where(case)}: the compiler refuses it: {refusal(told)}", _rest(told))
    elif budget.fits is False:
        unjudged = f"{where(case)}: does not fit, which the budget asks not to judge; there is no program to judge else"
        yield with_skip(skipped(MEMORY, unjudged, [refusal(told)]), NOT_JUDGED)
    else:
        yield _too_large(case, refusal(told))


def _rest(error: str) -> list[str]:
    """Return a few more lines of a message than its first sentence."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[1:6]


def _memory(case: AotCase, budget: ProgramBudget) -> Verdict | None:
    fit = case.fit
    if fit is None:
        return None
    sizes = f"{units.byte_count(fit.peak_bytes)} of {units.byte_count(fit.hbm_bytes)}"
    if budget.fits is False:
        return skipped(MEMORY, f"{where(case)}: {sizes}: the budget asks not to judge it")
    if not fit.fits:
        return _too_large(case, f"a device needs {sizes}")
    return passed(MEMORY, f"{where(case)}: {sizes}{_room(fit)}")


def _too_large(case: AotCase, told: str) -> Verdict:
    found = tuple(arguments(case, None))
    largest = f": the largest argument is {found[0]}" if found else ""
    return failed(MEMORY, f"{where(case)}: does not fit: {told}{largest}{_room(case.fit)}", found[1:], _SMALLER)


def _room(fit: Fit | None) -> str:
    """Say how far the cache could grow, or to what it would have to shrink; nothing where that is not known or none."""
    grows = () if fit is None else (("context", fit.longest_context), ("batch", fit.largest_batch))
    room = ", ".join(f"{name} up to {most:,}" for name, most in grows if most)
    return f" (estimate: {room})" if room else ""


def _donation(case: AotCase) -> Verdict | None:
    """Judge that every donated argument is updated in place; nothing is said where none is donated."""
    assert case.program is not None
    lost = case.program.unaliased_donations
    donated = [one.path for one in case.arguments if one.donated]
    if not lost:
        return passed(DONATION, f"{where(case)}: donations are updated in place") if donated else None
    found = causes("unaliased_donations", case)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    summary = f"{where(case)}: {found[0]}{more} was donated and is not updated in place: it is held twice"
    return failed(DONATION, summary, found[1:], _DONATE, unaliased=list(lost))


def _kernels(case: AotCase, wanted: Sequence[str]) -> Verdict:
    assert case.program is not None
    if not was_read(case.program):
        return with_skip(skipped(KERNELS, f"{where(case)}: its compiled text was not understood"), NOT_JUDGED)
    there = case.program.kernels
    lost = [glob for glob in wanted if not any(fnmatchcase(kernel, glob) for kernel in there)]
    if not lost:
        return passed(KERNELS, f"{where(case)}: runs {', '.join(there)}")
    summary = f"{where(case)}: no kernel {lost[0]!r} in the program, which has {', '.join(there) or 'none'}"
    return failed(KERNELS, summary, causes("temp_bytes", case)[:_MOST_CAUSES], missing=lost)


def _unstable(gate: str, field: str, case: AotCase) -> Verdict | None:
    """Leave out what the compiler does not make the same twice."""
    if case.program is None or field not in case.program.unstable:
        return None
    told = f"{where(case)}: {field.replace('_', ' ')} are not the same in two compilations, so that they are not judged"
    return with_skip(skipped(gate, told), ELSEWHERE)


def _limited(case: AotCase, limit: Limit) -> Verdict:
    """Judge one budget; what breaks it is named."""
    gate, fact = f"budget:{limit.metric}", FACTS[limit.metric]
    if fact.is_unstable(case):
        told = f"{where(case)}: {fact.words} is not the same in two compilations, so that it is not judged"
        return with_skip(skipped(gate, told), ELSEWHERE)
    value = fact.value(case)
    if value is None:
        return with_skip(skipped(gate, f"{where(case)}: {fact.words} is not known", [limit.origin]), NOT_JUDGED)
    words = f"{where(case)}: {fact.words}{' (estimate)' if fact.estimate else ''}"
    found = compare(words, Reading(value=value, low=value, high=value), fact.unit, least=limit.min, most=limit.max)
    if found.outcome is not Outcome.FAIL:
        return Verdict(gate=gate, outcome=found.outcome, summary=found.text, detail=(limit.origin,))
    why = causes(limit.metric, case)
    summary = f"{found.text}: {why[0]}" if why else found.text
    return failed(gate, summary, [*why[1:_MOST_CAUSES], limit.origin], fact=limit.metric, value=value, causes=list(why))


def _unmatched(patterns: Sequence[str]) -> Iterator[Finding]:
    if patterns:
        more = f" and {len(patterns) - 1} more" if patterns[1:] else ""
        yield Finding(
            code=UNMATCHED,
            severity=Severity.NOTE,
            message=f"the budget {patterns[0]!r}{more} matches no program that was compiled here.",
            data={"patterns": list(patterns)},
        )
