"""Gate "speed": what the process pairs of a comparison say about one case's time, in words and numbers.

The decision is ``stats.sequential``'s. A slowdown that the first stage finds fails only when fresh pairs find it again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from qwenperf.errors import MeasurementError
from qwenperf.gate.anchors import anchor_medians, anchor_notes
from qwenperf.gate.verdict import inconclusive, skipped
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.stats.pairs import PairEstimate, estimate
from qwenperf.stats.sequential import Decision, decide
from qwenperf.stats.spending import Plan
from qwenperf.stats.turns import side_time
from qwenperf.traces.diff import REQUESTS, top_lines

GATE = "speed"


def pair_estimates(pairs: Sequence[PairRecord], case: str, stage: int) -> tuple[PairEstimate, ...]:
    """Return what each whole pair of ``stage`` says of ``case``, in the order of time."""
    return tuple(_estimate(rounds) for rounds in _whole(pairs, case, stage))


def _whole(pairs: Sequence[PairRecord], case: str, stage: int) -> list[Sequence[RoundRecord]]:
    """Return the rounds of ``case`` of each whole pair."""
    return [pair.rounds[case] for pair in pairs if pair.stage == stage and _counts(pair, case)]


def _counts(pair: PairRecord, case: str) -> bool:
    """Say whether a pair is whole and has timed ``case``."""
    return pair.failed is None and bool(pair.rounds.get(case))


def token_times(pairs: Sequence[PairRecord], case: ComparedCase) -> dict[str, float]:
    """Return the seconds of a token in base and in head, its share of the prefill included; empty where unknown.

    Those of the confirmation, in which traces are taken, or else of the first stage. Head's are base's with the median
    difference of the pairs: so they differ by what was judged, and not by what the machine did between two trials.
    """
    workload = case.spec.get("workload")
    tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    if not isinstance(tokens, int) or tokens < 1:
        return {}
    try:
        return {side: seconds / tokens for side, seconds in _request_times(pairs, case).items()}
    except (MeasurementError, ValueError, ArithmeticError):  # times that no clock gives
        return {}


def _request_times(pairs: Sequence[PairRecord], case: ComparedCase) -> dict[str, float]:
    for stage in (2, 1):
        whole = _whole(pairs, case.id, stage)
        if whole:
            base = [statistics.median(side_time(one.wall_s, one.order, "A") for one in rounds) for rounds in whole]
            slower = statistics.median(one.wall for one in pair_estimates(pairs, case.id, stage))
            base_s = statistics.median(base) / max(1, case.repeats)
            return {"base": base_s, "head": base_s * math.exp(slower)}
    return {}


def _estimate(rounds: Sequence[RoundRecord]) -> PairEstimate:
    base, head = ([side_time(one.wall_s, one.order, letter) for one in rounds] for letter in "AB")
    cpu_base, cpu_head = ([side_time(one.cpu_s, one.order, letter) for one in rounds] for letter in "AB")
    try:
        return estimate(base, head, cpu_base, cpu_head)
    except MeasurementError:  # CPU time has a coarse clock and may read 0
        return estimate(base, head)


def decide_cases(
    comparison: ComparisonRecord,
    plan: Plan,
    *,
    look: int,
    stage: int = 1,
    earlier: Mapping[str, Decision] | None = None,
    first: Mapping[str, Decision] | None = None,
) -> dict[str, Decision]:
    """Return the decision on each case that both sides can run, at one look.

    Margins are the comparison's own; those of a second stage are what the ``first`` stage went by.
    """
    names = [case.id for case in comparison.cases if _runs(case)]
    values = {name: [one.wall for one in pair_estimates(comparison.pairs, name, stage)] for name in names}
    values = {name: seen[: plan.looks[look]] for name, seen in values.items() if seen}
    margins = {name: value for name, value in comparison.plan.get("margins", {}).items() if name in values}
    margins |= {name: one.margin for name, one in (first or {}).items() if stage > 1 and name in values}
    return decide(values, margins, plan, look, earlier) if values else {}


def _runs(case: ComparedCase) -> bool:
    return all(side is not None and side.error is None for side in (case.base, case.head))


def speed_verdict(
    case: ComparedCase,
    pairs: Sequence[PairRecord],
    stages: Mapping[int, Mapping[str, Decision]],
    *,
    same_code: bool = False,
) -> Verdict:
    """Return the verdict on one case's time; ``same_code``: both sides are one tree, so nothing can have changed."""
    first = stages.get(1, {}).get(case.id)
    if first is None:
        return skipped(GATE, "not decided: too few whole pairs were measured")
    second = stages.get(2, {}).get(case.id)
    outcome, reason = _outcome(case, first, second, same_code=same_code)
    data = {"stage_1": _data(first), "order": "trials ABBA and BAAB, spawn order by lot", **_seen(case, pairs)}
    if second is not None:
        data["stage_2"] = _data(second)
    notes = (*_notes(first), *anchor_notes(pairs))
    text = f"{_told(first)}{reason}"
    if outcome is Outcome.INCONCLUSIVE:
        return inconclusive(GATE, text, detail=notes, advice=_sentence(first.settle), **data)
    slower = _slower_operations(case, pairs) if outcome is Outcome.FAIL else ()
    return Verdict(gate=GATE, outcome=outcome, summary=text, detail=(*slower, *notes), data=data)


def _slower_operations(case: ComparedCase, pairs: Sequence[PairRecord]) -> tuple[str, ...]:
    """Return what took longer in head's trace than in base's, what neither shows, and why a side has no trace."""
    summaries, remarks = (case.extra.get(name) for name in ("trace_summaries", "trace_remarks"))
    slower: tuple[str, ...] = ()
    if isinstance(summaries, Mapping):
        slower = top_lines(
            summaries.get("base"), summaries.get("head"), timed=token_times(pairs, case), timed_of=REQUESTS
        )
    told = remarks.items() if isinstance(remarks, Mapping) else ()
    return (*slower, *(f"trace of {side}: {text}" for side, texts in told for text in texts))


def _outcome(case: ComparedCase, first: Decision, second: Decision | None, *, same_code: bool) -> tuple[Outcome, str]:
    if first.outcome is not Outcome.FAIL:
        return first.outcome, ""
    if second is None:
        return Outcome.INCONCLUSIVE, "; not confirmed yet"
    if second.outcome is not Outcome.FAIL:
        return Outcome.INCONCLUSIVE, f"; {second.pairs} fresh pairs do not confirm it ({_told(second)})"
    if same_code:
        return Outcome.INCONCLUSIVE, "; but base and head are the same code: this machine has changed between them"
    where = ""
    if _same_programs(case):
        where = "; the programs are identical, so the time is lost on the host: Python, dispatch or transfers"
    return Outcome.FAIL, f"; confirmed by {second.pairs} fresh pairs ({second.estimate:+.1%}){where}"


def _same_programs(case: ComparedCase) -> bool:
    return bool(case.base and case.head and case.base.programs) and case.base.programs == case.head.programs  # type: ignore[union-attr]


def _told(decision: Decision) -> str:
    if not math.isfinite(decision.estimate):
        return f"{decision.pairs} pairs are too few"
    interval = f"{decision.low:+.1%} to {decision.high:+.1%}" if math.isfinite(decision.high) else "any difference"
    found = f"time {decision.estimate:+.1%} ({interval}) over {decision.pairs} pairs, margin {decision.margin:.1%}"
    if decision.outcome is Outcome.INCONCLUSIVE:
        known = math.isfinite(decision.smallest_effect)
        size = f"in symmetric noise a slowdown of {decision.smallest_effect:.1%} would be found"
        found += f"; {size if known else 'too few pairs are planned to find any slowdown'}"
    return found


def _notes(decision: Decision) -> tuple[str, ...]:
    notes = []
    if decision.modes:
        centres = " and ".join(f"{mode:+.1%}" for mode in decision.modes)
        notes.append(f"the pairs fall into two groups, at {centres}: something differs from process to process")
    if decision.p_permutation is not None:
        notes.append(f"sign flips of the pairs: p = {decision.p_permutation:.2g}")
    return tuple(notes)


def _seen(case: ComparedCase, pairs: Sequence[PairRecord]) -> dict[str, object]:
    """Return what a verdict carries beside its decision, in relative differences.

    ``samples`` are the pairs by stage, and ``spawned_first`` the sides that were started first in them; ``cpu`` is the
    median in CPU time, which other work disturbs less.
    """
    stages = {f"stage_{stage}": pair_estimates(pairs, case.id, stage) for stage in (1, 2)}
    first = {
        f"stage_{stage}": [one.first for one in pairs if one.stage == stage and _counts(one, case.id)]
        for stage in (1, 2)
    }
    ratios = [one.cpu for one in stages["stage_1"] if one.cpu is not None]
    return {
        "samples": {name: [round(math.expm1(one.wall), 6) for one in found] for name, found in stages.items() if found},
        "spawned_first": {name: sides for name, sides in first.items() if sides},
        "anchors": anchor_medians(pairs),
        **({"cpu": math.expm1(statistics.median(ratios))} if ratios else {}),
        **({"traces": case.extra["traces"]} if "traces" in case.extra else {}),
    }


def _data(decision: Decision) -> dict[str, object]:
    return {
        name: value if not isinstance(value, float) or math.isfinite(value) else None
        for name, value in asdict(decision).items()
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
