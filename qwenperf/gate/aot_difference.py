"""What changed between base and head in what the compiler made of a program, and which buffer or line did it.

Nothing here is noise: the same program gives the same numbers. An estimate is told and fails nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qwenperf import units
from qwenperf.gate.aot import COMPILES, DONATION, KERNELS, MEMORY, is_refused, judge_case
from qwenperf.gate.aot_budget import ProgramBudget
from qwenperf.gate.aot_causes import causes
from qwenperf.gate.aot_facts import FACTS, KIND_FACTS, Fact, was_read
from qwenperf.gate.aot_words import argument_text, refusal, where
from qwenperf.gate.comparison import SIZE_MARGIN
from qwenperf.gate.verdict import NOT_JUDGED, failed, passed, skipped, with_skip
from qwenperf.schema.analysis import AotCase, AotRecord, Argument
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import Finding, Outcome, Severity, Status, Verdict

PROGRAM = "program"
ALIAS = "alias_bytes"
SMALL_SHARE = 0.001
"""Bytes below this share of the program's memory or traffic fail nothing, whatever they grow by. Chosen."""

_COMPILERS = ("jax", "jaxlib", "libtpu")
_FROM_WHOLE = {
    **dict.fromkeys(("temp_bytes", "argument_bytes", "output_bytes", "peak_bytes", "alias_bytes"), "peak_bytes"),
    **dict.fromkeys(("copied_bytes", "relayout_bytes", "upcast_bytes", "slice_bytes"), "hbm_bytes"),
}
"""The fact that a size is a share of."""

_COUNTED_OTHERWISE = ("relayouts", "upcasts", "slices", *KIND_FACTS.values())
"""Copies are told by their bytes: a hundred of a scalar are no regression, one of all weights is. Exchanges are told
together: one kind for another is no regression while they are no more and move no more."""

_TOLD_ONE_WAY = ("argument_bytes", "alias_bytes", "hbm_bytes", "flops")
"""Facts whose causes are sentences from base to head, which say nothing the other way round."""

_MOST_CAUSES = 6


def compare_records(base: AotRecord, head: AotRecord) -> AotRecord:
    """Return head with a verdict for each thing that differs from base, and findings on what cannot be compared.

    A program that only base has stays in ``declared``, so that it counts as missing. One that base was asked for and
    does not have, as when it was interrupted, is not judged; nor is any by a base without programs.
    """
    old = {case.id: case for case in base.cases}
    lacks = {case.id for case in head.cases if not old} | {*base.declared} - {*old}
    cases = tuple(
        replace(case, verdicts=(_incomplete(case),) if case.id in lacks else compare_cases(old.get(case.id), case))
        for case in head.cases
    )
    there = {case.id for case in cases}
    missing = tuple(name for name in dict.fromkeys((*base.declared, *old)) if name not in there)
    findings = (*_of_compilers(base, head), *(_lost(name, compiled=name in old) for name in missing))
    return replace(
        head,
        cases=cases,
        declared=tuple(dict.fromkeys((*head.declared, *missing))),
        findings=(*head.findings, *findings),
        extra={**head.extra, "base": {"id": base.id, "commit": base.commit, "environment": base.environment}},
    )


def compare_cases(base: AotCase | None, head: AotCase) -> tuple[Verdict, ...]:
    """Return the verdicts on one program of head against the same one of base."""
    if base is None:
        return (passed(PROGRAM, f"{where(head)}: new in head, nothing to compare with", new=True),)
    if base.program is None or head.program is None or head.status is not Status.MEASURED:
        return (_uncompiled(base, head),)
    if base.program.fingerprint and base.program.fingerprint == head.program.fingerprint:
        return (passed(PROGRAM, f"{where(head)}: the same program", same=True),)
    changed = tuple(_changed(base, head))
    return (_unread(base, head) or _another(head, same_numbers=not changed), *changed)


def _another(head: AotCase, *, same_numbers: bool) -> Verdict:
    summary = f"{where(head)}: another program{', with the same numbers' if same_numbers else ''}"
    return passed(PROGRAM, summary, same=False)


def _unread(base: AotCase, head: AotCase) -> Verdict | None:
    """Say that the text of a side was not understood: it is not known to equal the other's, or to have less of it."""
    sides = [name for name, one in (("base", base), ("head", head)) if one.program and not was_read(one.program)]
    if not sides:
        return None
    told = f"{where(head)}: the compiled text of {' and '.join(sides)} was not understood: only sizes are compared"
    return with_skip(skipped(PROGRAM, told), NOT_JUDGED)


def _incomplete(head: AotCase) -> Verdict:
    return with_skip(skipped(PROGRAM, f"{where(head)}: not compared: base is incomplete and lacks it"), NOT_JUDGED)


def _uncompiled(base: AotCase, head: AotCase) -> Verdict:
    """Judge a program that one side does not have: what base compiles and head's compiler refuses is a failure."""
    if base.program is not None and is_refused(head):
        refused = judge_case(head, ProgramBudget())[0]
        told = refused.summary.removeprefix(f"{where(head)}: ")
        return replace(refused, summary=f"{where(head)}: compiled in base, and in head {told}")
    if head.program is not None and is_refused(base):
        summary = f"{where(head)}: compiles, which base does not: {refusal(base.error or '')}"
        return replace(passed(COMPILES, summary), outcome=Outcome.IMPROVED)
    sides = (("base", base), ("head", head))
    told = "; ".join(
        f"{name}: {refusal(side.error or side.status.value)}" for name, side in sides if side.program is None
    )
    return with_skip(skipped(COMPILES, f"{where(head)}: not compared: {told}"), NOT_JUDGED)


def _changed(base: AotCase, head: AotCase) -> Iterator[Verdict]:
    yield from _kernels(base, head)
    found = list(_facts(base, head))
    yield from found
    if not any(one.gate == ALIAS and one.outcome is Outcome.FAIL for one in found):
        yield from _undonated(base, head)


def _facts(base: AotCase, head: AotCase) -> Iterator[Verdict]:
    if head.fit is not None and base.fit is not None and base.fit.fits and not head.fit.fits:
        yield next(one for one in judge_case(head, ProgramBudget()) if one.gate == MEMORY)
    for fact in FACTS.values():
        if fact.timed or fact.direction is Direction.NONE or fact.name in _COUNTED_OTHERWISE:
            continue
        old, new = fact.value(base), fact.value(head)
        if old is not None and new is not None and old != new and not _is_smaller_cache(fact, base, head):
            yield _verdict(fact, base, head, old, new)


def _is_smaller_cache(fact: Fact, base: AotCase, head: AotCase) -> bool:
    """Say whether less is updated in place only because there is less to update: what is donated is that much smaller.

    Other arguments do not count: weights that became smaller do not explain that a cache is copied. By bytes or by its
    share of what is donated no less may be updated; a chip's layout makes arrays larger than their shapes say.
    """
    if fact.name != ALIAS or _no_longer_donated(base, head):
        return False
    old, new = (fact.value(case) or 0 for case in (base, head))
    before, after = (sum(one.bytes for one in case.arguments if one.donated) for case in (base, head))
    size = (FACTS["argument_bytes"].value(base) or 0) - (FACTS["argument_bytes"].value(head) or 0)
    is_share = new * before >= (1 - SIZE_MARGIN) * old * after
    return 0 < old - new <= size and after < before and (old - new <= before - after or is_share)


def _no_longer_donated(base: AotCase, head: AotCase) -> list[Argument]:
    """Return the arguments that base donates and head does not, but for those that are small beside the whole."""
    before = {one.path for one in base.arguments if one.donated}
    least = SMALL_SHARE * max(FACTS["peak_bytes"].value(case) or 0.0 for case in (base, head))
    return [one for one in head.arguments if one.path in before and not one.donated and one.bytes >= least]


def _undonated(base: AotCase, head: AotCase) -> Iterator[Verdict]:
    """Fail where something is no longer donated, though as many bytes in all are updated in place."""
    told = [f"{argument_text(one)} was donated in base and is not in head" for one in _no_longer_donated(base, head)]
    if told:
        yield failed(DONATION, f"{where(head)}: {told[0]}", told[1:_MOST_CAUSES])


def _verdict(fact: Fact, base: AotCase, head: AotCase, old: float, new: float) -> Verdict:
    outcome = _outcome(fact, base, head, old, new)
    label = " (estimate)" if fact.estimate else ""
    change = f"{units.quantity(old, fact.unit)} -> {units.quantity(new, fact.unit)}"
    summary = f"{where(head)}: {fact.words}{label} {change}"
    if outcome is Outcome.PASS and not fact.estimate:
        summary += ": within what is accepted"
    worse = (new > old) is (fact.direction is Direction.LOWER)
    told = causes(fact.name, head, base) if worse else _gone(fact.name, base, head)
    if told and outcome is not Outcome.PASS:
        summary += f": {told[0]}" if worse else f": gone: {told[0]}"
    data = {"fact": fact.name, "base": old, "head": new, "causes": list(told[:_MOST_CAUSES])}
    return Verdict(gate=fact.name, outcome=outcome, summary=summary, detail=told[1:_MOST_CAUSES], data=data)


def _gone(fact: str, base: AotCase, head: AotCase) -> tuple[str, ...]:
    """Return what base has and head lacks, which explains an improvement."""
    if fact in _TOLD_ONE_WAY:
        return ()
    return causes("temp_bytes" if fact == "peak_bytes" else fact, base, head)


def _outcome(fact: Fact, base: AotCase, head: AotCase, old: float, new: float) -> Outcome:
    """Say whether a change counts: any more of a count, and 3% more of a size that is not small beside the whole."""
    worse = (new > old) is (fact.direction is Direction.LOWER)
    if fact.estimate or not _is_large(fact, base, head, old, new):
        return Outcome.PASS
    return Outcome.FAIL if worse else Outcome.IMPROVED


def _is_large(fact: Fact, base: AotCase, head: AotCase, old: float, new: float) -> bool:
    if fact.unit == "count":
        return True
    if abs(new - old) < SIZE_MARGIN * old:
        return False
    whole = FACTS[_FROM_WHOLE[fact.name]] if fact.name in _FROM_WHOLE else None
    sizes = [] if whole is None else [whole.value(case) or 0.0 for case in (base, head)]
    return abs(new - old) >= SMALL_SHARE * max(sizes, default=0.0)


def _kernels(base: AotCase, head: AotCase) -> Iterator[Verdict]:
    """Judge that head still runs base's own kernels: a kernel that is gone was replaced by what the compiler makes."""
    if any("kernels" in one.program.unstable or not was_read(one.program) for one in (base, head) if one.program):
        return
    # Their lines of source move with every change of the file.
    old, new = (
        [kernel.partition(" from ")[0] for kernel in one.program.kernels] for one in (base, head) if one.program
    )
    lost = [kernel for kernel in dict.fromkeys(old) if kernel not in new]
    if lost:
        told = causes("temp_bytes", head, base) or causes("hbm_bytes", head, base)
        instead = f": instead {told[0]}" if told else ""
        yield failed(KERNELS, f"{where(head)}: kernel `{lost[0]}` is gone{instead}", told[1:_MOST_CAUSES], lost=lost)


def _of_compilers(base: AotRecord, head: AotRecord) -> Iterator[Finding]:
    pairs = [(name, base.environment.get(name), head.environment.get(name)) for name in _COMPILERS]
    told = [f"{name} {old} in base, {new} in head" for name, old, new in pairs if old != new]
    if told:
        yield Finding(
            code="compilers-differ",
            severity=Severity.NOTE,
            message=f"the compilers differ ({'; '.join(told)}): a difference may be theirs.",
            data={name: [old, new] for name, old, new in pairs if old != new},
        )


def _lost(name: str, *, compiled: bool) -> Finding:
    told = "compiled in base and missing in head" if compiled else "asked for in base, and on neither side"
    return Finding(
        code="program-missing",
        severity=Severity.ERROR,
        message=f"{name}: {told}.",
        advice="Compile the same programs for the same targets on both sides.",
        data={"id": name},
    )
