"""Verdicts of a comparison: what does not depend on the clock first, then what the pairs say.

Reads records only. The statistics are ``stats.sequential``'s; here its decisions become sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from qwenperf import units
from qwenperf.gate import verdict as verdict_module
from qwenperf.gate.differences import changed_metrics, environment_differences, environment_key, lost_metrics
from qwenperf.gate.excuses import is_excused
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import speed_verdict
from qwenperf.gate.verdict import ELSEWHERE, failed, passed, skip_reason, skipped, with_skip
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideEvidence
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.stats.sequential import Decision

INVENTORY, ENVIRONMENT = "inventory", "environment"
TOO_MANY_BROKEN = 3
"""Broken pairs after which a comparison is given up: what is left would not be what was planned."""

SIZE_MARGIN = 0.03
"""Growth of bytes or work that is accepted, whatever margin times have: nothing about it is noise."""

TOKENS, COMPILES, PROGRAMS, SIZES = "tokens", "compiles", "programs", "sizes"
AGREEING = "tokens_equal"
"""A share that gate tokens answers for: 3% less of it is no small size but a wrong token."""

_APART = "the runs were measured apart: their times differ by what the machine did meanwhile"
_ELSEWHERE = "base and head ran in different environments: their times are not comparable"

_NEEDED = (INVENTORY, SPEED)
"""Gates without whose answer a case was not compared."""


def judge_comparison(comparison: ComparisonRecord, stages: Mapping[int, Mapping[str, Decision]]) -> ComparisonRecord:
    """Return the comparison with verdicts; ``stages`` are the decisions of stage 1 and of the confirmation, by case."""
    cases = tuple(_judged(case, comparison, stages) for case in comparison.cases)
    return replace(comparison, cases=cases, verdicts=tuple(_of_all(comparison)))


def exit_code(comparison: ComparisonRecord, inconclusive: str = "warn") -> int:
    """Return what the command ends with: 130, 5, 1, 4, 3 or 0, the first that holds; see ``gate.verdict``."""
    codes = [verdict_module.FINE]
    if comparison.interrupted:
        codes.append(verdict_module.INTERRUPTED)
    by_gate = {verdict.gate for verdict in comparison.verdicts}
    if ENVIRONMENT in by_gate:
        codes.append(verdict_module.UNFIT)
    if INVENTORY in by_gate:
        codes.append(verdict_module.NOT_MEASURED)
    for case in comparison.cases:
        outcomes = {verdict.outcome for verdict in case.verdicts if not is_excused(verdict)}
        if Outcome.FAIL in outcomes:
            codes.append(verdict_module.FAILED)
        if Outcome.INCONCLUSIVE in outcomes and inconclusive == "fail":
            codes.append(verdict_module.INCONCLUSIVE)
        if any(
            one.gate in _NEEDED and one.outcome is Outcome.SKIPPED and skip_reason(one) != ELSEWHERE
            for one in case.verdicts
        ):
            codes.append(verdict_module.NOT_MEASURED)
    if not comparison.cases:
        codes.append(verdict_module.NOT_MEASURED)
    return verdict_module.strongest(codes)


def _of_all(comparison: ComparisonRecord) -> Iterator[Verdict]:
    differing = _unexpected(comparison)
    if differing:
        unexpected = list(differing.values())
        yield Verdict(
            gate=ENVIRONMENT,
            outcome=Outcome.SKIPPED,
            summary=f"not comparable: {unexpected[0]}",
            detail=tuple(unexpected[1:]),
            advice="Measure both sides in one environment; `--jax` compares versions on purpose.",
            data={"fields": list(differing)},
        )
    broken = [pair.failed for pair in comparison.pairs if pair.failed]
    if len(broken) >= TOO_MANY_BROKEN:
        yield Verdict(
            gate=INVENTORY,
            outcome=Outcome.SKIPPED,
            summary=f"{len(broken)} pairs broke, and nothing more was measured: {broken[-1]}",
            data={"broken": len(broken)},
        )
    missing = comparison.extra.get("missing", ())
    if missing:
        yield Verdict(
            gate=INVENTORY,
            outcome=Outcome.SKIPPED,
            summary=f"declared in base and missing in head: {missing[0]}",
            detail=tuple(missing[1:]),
            advice="Give a case that was renamed as --alias OLD=NEW.",
            data={"missing": list(missing)},
        )


def _unexpected(comparison: ComparisonRecord) -> dict[str, str]:
    """Return a line for each field of the environment that differs and was not meant to."""
    differing = environment_differences(comparison.base.environment, comparison.head.environment)
    return {name: line for name, line in differing.items() if name not in comparison.plan.get("varies", ())}


def _judged(
    case: ComparedCase, comparison: ComparisonRecord, stages: Mapping[int, Mapping[str, Decision]]
) -> ComparedCase:
    if case.base is None or case.head is None or case.base.error or case.head.error:
        return replace(case, verdicts=(_broken(case),))
    informed = comparison.base.extra.get("engine") != comparison.head.extra.get("engine")
    fixed = [
        _tokens(case),
        _compiles(case, informed=informed),
        _programs(case),
        *_sizes(case, informed=informed),
    ]
    if comparison.extra.get("apart"):
        return replace(case, verdicts=(*fixed, with_skip(skipped(SPEED, _APART), ELSEWHERE)))
    if _unexpected(comparison):
        return replace(case, verdicts=(*fixed, with_skip(skipped(SPEED, _ELSEWHERE), ELSEWHERE)))
    same_code = bool(comparison.extra.get("same_code")) and not comparison.plan.get("aa")
    speed = speed_verdict(case, comparison.pairs, stages, same_code=same_code)
    where = environment_key(comparison.base.environment)
    told = replace(speed, data={**speed.data, "environment": where}) if where else speed
    return replace(case, verdicts=(*fixed, told))


def _broken(case: ComparedCase) -> Verdict:
    """Say which side gave nothing. What base builds and head does not is a failure; the rest was never measured."""
    base, head = (_trouble(side) for side in (case.base, case.head))
    if case.head is not None and case.head.error and not base:
        return failed(INVENTORY, f"works in base and not in head: {head}", advice="Run the case in head alone.")
    told = [f"{name}: {why}" for name, why in (("base", base), ("head", head)) if why]
    return skipped(INVENTORY, f"not measured: {'; '.join(told)}")


def _trouble(side: SideEvidence | None) -> str:
    return "its process told nothing of the case" if side is None else side.error or ""


def _tokens(case: ComparedCase) -> Verdict:
    assert case.base is not None
    assert case.head is not None
    approximate = case.extra.get("approximate")
    if approximate:
        advice = "`qwenperf run` holds each engine's logits to the bound that is stated for its settings."
        return skipped(TOKENS, f"tokens may differ: {' and '.join(approximate)}", advice=advice)
    if not case.base.tokens or not case.head.tokens:
        return _agreeing(case.base, case.head) or skipped(TOKENS, "a side told no tokens")
    if case.base.tokens == case.head.tokens:
        return _agreeing(case.base, case.head) or passed(TOKENS, "both sides generate the same tokens")
    for row, (old, new) in enumerate(zip(case.base.tokens, case.head.tokens, strict=False)):
        for position, (before, after) in enumerate(zip(old, new, strict=False)):
            if before != after:
                where = f"row {row}, new token {position}"
                return failed(
                    TOKENS,
                    f"{where}: {before} in base, {after} in head",
                    advice="`qwenperf run` compares head with uncached decoding and tells a near tie from a bug.",
                )
    return failed(TOKENS, "base and head generate different numbers of tokens")


def _agreeing(base: SideEvidence, head: SideEvidence) -> Verdict | None:
    """Fail where the tokens are the same and fewer of them are those of uncached decoding: that is what broke."""
    old, new = (side.metrics.get(AGREEING) for side in (base, head))
    if old is None or new is None or new.value >= old.value:
        return None
    text = f"{AGREEING} {old.value:g} -> {new.value:g}: fewer tokens are those of uncached decoding"
    return failed(TOKENS, text, advice="`qwenperf run` on head names the first token that differs.")


def _compiles(case: ComparedCase, *, informed: bool) -> Verdict:
    """Judge how many programs the first request compiles; two engines differ in it on purpose (``informed``)."""
    assert case.base is not None
    assert case.head is not None
    old, new = (side.extra.get("compiles") for side in (case.base, case.head))
    if old is None or new is None:
        return skipped(COMPILES, "a side did not count its compiles")
    text = f"programs compiled for the first request: {old} in base, {new} in head"
    if new > old and informed:
        return passed(COMPILES, f"{text}: by choice, the engines differ")
    if new > old:
        return failed(COMPILES, text, advice="`qwenperf run` on head names functions and causes.")
    return replace(passed(COMPILES, text), outcome=Outcome.IMPROVED if new < old else Outcome.PASS)


def _programs(case: ComparedCase) -> Verdict:
    assert case.base is not None
    assert case.head is not None
    old, new = case.base.programs, case.head.programs
    if not old and not new:
        return skipped(PROGRAMS, "no side shows its programs")
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if not changed:
        summary = "base and head compile to the same programs: the device does the same work"
        return passed(PROGRAMS, summary, same=True)
    return passed(PROGRAMS, f"other programs in head: {', '.join(changed)}", same=False)


def _sizes(case: ComparedCase, *, informed: bool) -> Iterator[Verdict]:
    """Judge what the compiler and formulas say of bytes and work; equal ones are not listed.

    Two engines differ in them on purpose (``informed``): what worsens is told and fails nothing.
    """
    assert case.base is not None
    assert case.head is not None
    for name in lost_metrics(case.base.metrics, case.head.metrics):
        yield skipped(f"{SIZES}:{name}", f"{name} was known of base and is not of head")
    changed = changed_metrics(case.base.metrics, case.head.metrics)
    for name, old, new in (one for one in changed if one[0] != AGREEING):
        change = new.value / old.value - 1 if old.value else float("inf")
        text = f"{name} {units.quantity(old.value, old.unit)} -> {units.quantity(new.value, new.unit)}"
        worse = change > 0 if old.direction == "lower" else change < 0
        outcome = Outcome.PASS if abs(change) < SIZE_MARGIN else Outcome.FAIL if worse else Outcome.IMPROVED
        if informed and outcome is Outcome.FAIL:
            outcome, text = Outcome.PASS, f"{text}: by choice, the engines differ"
        yield Verdict(
            gate=f"{SIZES}:{name}", outcome=outcome, summary=text, data={"change": change if old.value else None}
        )
