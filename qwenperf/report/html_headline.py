"""The first sentence of a page: what failed, by how much, which operation took the time. Pure: records in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwenperf.gate.excuses import is_excused
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import token_times
from qwenperf.gate.throughput import GATE as THROUGHPUT
from qwenperf.gate.verdict import UNMATCHED
from qwenperf.report.html_blocks import attempt
from qwenperf.report.html_signs import (
    BAD,
    EXCUSED,
    FAIL,
    INCONCLUSIVE,
    NEEDED,
    PASS,
    QUIET,
    UNKNOWN,
    Sign,
    bad,
    of_case,
    of_compared,
    of_outcome,
)
from qwenperf.report.lost_weights import lost_line
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import CaseRecord, Outcome, RunRecord, Status, Verdict
from qwenperf.traces.diff import REQUESTS, TraceDiff, diff, longest_lines

_WORDS = " Its last words:"
"""What comes between the end of a process and what it printed last, in an error of the lab's."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One sentence, what explains it, and how many cases ended how."""

    sign: Sign
    sentence: str
    more: tuple[str, ...] = ()
    tally: tuple[tuple[Sign, int], ...] = ()


def run_headline(run: RunRecord) -> Headline:
    """Sum a run up."""
    sign, sentence, more = _of_run(run)
    if run.interrupted:
        more = (*more, f"The run was interrupted; {len(run.cases)} of {len(run.declared)} cases had begun.")
    lost = lost_line(finding for case in run.cases for finding in case.findings)
    more = (*more, lost) if lost else more
    return Headline(sign=sign, sentence=sentence, more=more, tally=_tally(map(of_case, run.cases)))


def _of_run(run: RunRecord) -> tuple[Sign, str, tuple[str, ...]]:
    total = len({*run.declared, *(case.id for case in run.cases)})
    failed = _failures((case, case.verdicts) for case in run.cases)
    if failed:
        case, verdict = failed[0]
        among = _among(len({one.id for one, _ in failed}), total, "failed")
        return FAIL, f"{among}{case.id}, {_said(verdict)}", _longest(case, verdict)
    lost = [case for case in run.cases if case.status is not Status.MEASURED]
    if lost:
        first = f"{lost[0].id}: {ended(lost[0])}"
        return bad("not measured"), f"{_among(len(lost), total, 'not measured')}{first}", ()
    missing = sorted({*run.declared} - {case.id for case in run.cases})
    if missing:
        return bad("missing"), f"{_among(len(missing), total, 'asked for and not measured')}{missing[0]}", ()
    if not run.cases:
        return bad("nothing measured"), "Nothing was measured.", ()
    unmatched = next((one for one in run.findings if one.code == UNMATCHED), None)
    if unmatched:
        return bad("not judged"), f"A budget is not judged: {unmatched.message}", ()
    judged = [(of_case(case), case.id, case.verdicts) for case in run.cases]
    return _of_quiet(judged) if any(case.verdicts for case in run.cases) else _of_unjudged(run)


def _of_unjudged(run: RunRecord) -> tuple[Sign, str, tuple[str, ...]]:
    """Sum up a run that no gate has looked at, such as one of another tool: what it is, and not its first case."""
    total, source = len(run.cases), run.extra.get("source")
    tool = source.get("format") if isinstance(source, Mapping) else None
    them = "it" if total == 1 else "them"
    if not isinstance(tool, str):
        which = "The case was" if total == 1 else f"All {total} cases were"
        sign = Sign(word="not judged", mark="", kind=QUIET)
        return sign, f"{which} measured, and no gate has judged {them}.", ()
    told = f"{total} case{'' if total == 1 else 's'} of {tool}, as it measured {them}."
    more = "No gate judges another tool's numbers; `qwenperf history` and `qwenperf regressions` show them over time."
    return Sign(word="imported", mark="i", kind=QUIET), told, (more,)


def comparison_headline(comparison: ComparisonRecord) -> Headline:
    """Sum a comparison up."""
    sign, sentence, more = _of_comparison(comparison)
    if comparison.interrupted:
        more = (*more, "The comparison was interrupted; the pairs measured before are judged.")
    lost = lost_line(comparison.findings)
    more = (*more, lost) if lost else more
    return Headline(sign=sign, sentence=sentence, more=more, tally=_tally(map(of_compared, comparison.cases)))


def _of_comparison(comparison: ComparisonRecord) -> tuple[Sign, str, tuple[str, ...]]:
    cases = comparison.cases
    failed = _failures((case, case.verdicts) for case in cases)
    if failed:
        case, verdict = failed[0]
        count = len({one.id for one, _ in failed})
        among = _among(count, len(cases), "failed")
        told = attempt("a verdict", lambda: _slower(case, verdict), lambda _: f"{case.id}, {_said(verdict)}")
        return FAIL, f"{among}{told}", _why(comparison, case, verdict)
    if comparison.verdicts:
        first = comparison.verdicts[0]
        return bad(first.gate), f"{first.summary[:1].upper()}{first.summary[1:]}", tuple(filter(None, [first.advice]))
    if not cases:
        return bad("nothing compared"), "No case was compared.", ()
    return _of_quiet([(of_compared(case), case.id, case.verdicts) for case in cases])


def _of_quiet(cases: Sequence[tuple[Sign, str, Sequence[Verdict]]]) -> tuple[Sign, str, tuple[str, ...]]:
    """Sum up cases of which none has failed: what could not be judged counts before what passed."""
    total = len(cases)
    for sign in [one for one, _, _ in cases if one.kind == BAD][:1]:
        return _some(sign, [(name, verdicts) for one, name, verdicts in cases if one == sign], total)
    for sign in (INCONCLUSIVE, EXCUSED, of_outcome(Outcome.SKIPPED), UNKNOWN):
        mine = [(name, verdicts) for one, name, verdicts in cases if one == sign]
        if mine:
            word = Sign(word="not judged", mark=sign.mark, kind=sign.kind) if sign == UNKNOWN else sign
            return _some(word, mine, total)
    better = [(name, verdicts) for one, name, verdicts in cases if one == of_outcome(Outcome.IMPROVED)]
    if better:
        return _some(of_outcome(Outcome.IMPROVED), better, total)
    return PASS, f"{'The case' if total == 1 else f'All {total} cases'} passed.", ()


def _some(sign: Sign, cases: Sequence[tuple[str, Sequence[Verdict]]], total: int) -> tuple[Sign, str, tuple[str, ...]]:
    """Say how many cases have a sign, and what the first of them says."""
    name, verdicts = cases[0]
    outcomes = {
        INCONCLUSIVE.word: Outcome.INCONCLUSIVE,
        EXCUSED.word: Outcome.FAIL,
        of_outcome(Outcome.IMPROVED).word: Outcome.IMPROVED,
    }
    outcome = outcomes.get(sign.word, Outcome.SKIPPED)
    found = sorted((one for one in verdicts if one.outcome is outcome), key=lambda one: one.gate not in NEEDED)
    verdict = found[0] if found else None
    said = "" if verdict is None else f", {_said(verdict)}"
    return sign, f"{_among(len(cases), total, sign.word.removeprefix('FAIL, '))}{name}{said}", ()


def _failures(cases: Iterable[tuple[Any, Sequence[Verdict]]]) -> list[tuple[Any, Verdict]]:
    """Return what failed: what is no matter of time first, then the largest slowdown."""
    found = [
        (case, verdict)
        for case, verdicts in cases
        for verdict in verdicts
        if verdict.outcome is Outcome.FAIL and not is_excused(verdict)
    ]
    return sorted(found, key=lambda one: _size(one[1]))


def _size(verdict: Verdict) -> tuple[bool, float]:
    stage = verdict.data.get("stage_1")
    estimate = stage.get("estimate") if isinstance(stage, Mapping) else None
    return verdict.gate in {SPEED, THROUGHPUT}, -estimate if isinstance(estimate, int | float) else 0.0


def _slower(case: ComparedCase, verdict: Verdict) -> str:
    """Say of a slowdown how large it is; of any other failure what its gate says."""
    if verdict.gate != SPEED:
        return f"{case.id}, {_said(verdict)}"
    first, second = (verdict.data.get(name, {}) for name in ("stage_1", "stage_2"))
    told = f"{case.id} takes {first['estimate']:.1%} longer ({first['low']:+.1%} to {first['high']:+.1%})"
    return f"{told}, confirmed by {second['pairs']} fresh pairs" if second else told


def _why(comparison: ComparisonRecord, case: ComparedCase, verdict: Verdict) -> tuple[str, ...]:
    """Return the operation that explains most of a slowdown, and what the traces leave unexplained."""
    if verdict.gate != SPEED:
        return tuple(verdict.detail[:1])
    found = attempt("the traces", lambda: _difference(comparison, case), lambda _: None)
    if found is None:
        return ()
    left, first = found.unexplained(), next(iter(found.changes), None)
    if first is None or min(first.difference_s, found.difference_s) <= 0:
        return tuple(filter(None, (left,)))
    most = "Most" if first.difference_s >= found.difference_s / 2 else "The largest part"
    return tuple(filter(None, (f"{most} of {'what the traces show' if left else 'it'}: {first.line()}", left)))


def _difference(comparison: ComparisonRecord, case: ComparedCase) -> TraceDiff | None:
    summaries = case.extra.get("trace_summaries")
    if not isinstance(summaries, Mapping) or not {"base", "head"} <= summaries.keys():
        return None
    times = token_times(comparison.pairs, case)
    sides = {f"timed_{side}_s": seconds for side, seconds in times.items()}
    return diff(summaries["base"], summaries["head"], timed=REQUESTS, **sides)


def _longest(case: CaseRecord, verdict: Verdict) -> tuple[str, ...]:
    """Return what the trace of a case that is too slow shows most of; of other failures the first detail."""
    if verdict.gate != THROUGHPUT:
        return tuple(verdict.detail[:1])
    return tuple(f"The longest part of a token: {line}" for line in longest_lines(case.evidence.trace_summary, 1))


def _said(verdict: Verdict) -> str:
    return f"{verdict.gate}: {verdict.summary}"


def _among(count: int, total: int, what: str) -> str:
    """Say how many of several cases ended so; of one alone its sign does."""
    return f"{count} of {total} cases {what}: " if total > 1 else ""


def ended(case: CaseRecord) -> str:
    """Say how a case ended that was not measured: what is known of its process, and the last line of what it said."""
    told, _, words = (case.error or case.status.value.replace("_", " ")).strip().partition(_WORDS)
    told, last = told.partition("\n")[0], words.strip().rpartition("\n")[2].strip()
    return f"{told}: {last}" if last else told


def _tally(signs: Iterable[Sign]) -> tuple[tuple[Sign, int], ...]:
    return tuple(Counter(signs).most_common())
