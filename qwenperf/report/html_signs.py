"""How a page shows an outcome: always a word and a mark, and a class that gives them a colour besides."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.gate.excuses import is_excused
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.verdict import ELSEWHERE, NOT_JUDGED, skip_reason, worst
from qwenperf.schema.comparison import ComparedCase
from qwenperf.schema.records import CaseRecord, Finding, Outcome, Severity, Status, Verdict
from qwenperf.schema.upgrade import VersionCase

NOT_COMPARED = "not compared"
NEEDED = frozenset({SPEED, "inventory"})
"""Gates of a comparison without whose answer a case was not compared."""

GOOD, BAD, DOUBT, QUIET = "good", "bad", "doubt", "quiet"


@dataclass(frozen=True, kw_only=True)
class Sign:
    """One outcome: ``word`` says it, ``mark`` is its shape, ``kind`` the class that colours it."""

    word: str
    mark: str
    kind: str


FAIL = Sign(word="FAIL", mark="\N{MULTIPLICATION X}", kind=BAD)
PASS = Sign(word="pass", mark="\N{CHECK MARK}", kind=GOOD)
INCONCLUSIVE = Sign(word="inconclusive", mark="?", kind=DOUBT)
EXCUSED = Sign(word="FAIL, excused", mark="\N{MULTIPLICATION X}", kind=DOUBT)
UNKNOWN = Sign(word="-", mark="", kind=QUIET)

_OUTCOMES = {
    Outcome.FAIL: FAIL,
    Outcome.PASS: PASS,
    Outcome.IMPROVED: Sign(word="improved", mark="\N{BLACK UP-POINTING TRIANGLE}", kind=GOOD),
    Outcome.INCONCLUSIVE: INCONCLUSIVE,
    Outcome.SKIPPED: Sign(word="skipped", mark="\N{WHITE CIRCLE}", kind=QUIET),
}

_SEVERITIES = {
    Severity.ERROR: Sign(word="error", mark="\N{MULTIPLICATION X}", kind=BAD),
    Severity.WARNING: Sign(word="warning", mark="!", kind=DOUBT),
    Severity.NOTE: Sign(word="note", mark="i", kind=QUIET),
}


def of_outcome(outcome: Outcome | None) -> Sign:
    """Return the sign of an outcome, or of none."""
    return UNKNOWN if outcome is None else _OUTCOMES[outcome]


def of_verdict(verdict: Verdict) -> Sign:
    """Return the sign of a verdict; a failure that somebody answers for says so."""
    if verdict.outcome is Outcome.FAIL and is_excused(verdict):
        return EXCUSED
    return bad(NOT_JUDGED) if skip_reason(verdict) == NOT_JUDGED else of_outcome(verdict.outcome)


def of_answer(verdict: Verdict) -> Sign:
    """Return the sign of a verdict by what it does to the exit code: an answer that is needed must not be lacking."""
    return bad(NOT_COMPARED) if _is_lost(verdict) else of_verdict(verdict)


def _is_lost(verdict: Verdict) -> bool:
    return verdict.gate in NEEDED and verdict.outcome is Outcome.SKIPPED and skip_reason(verdict) != ELSEWHERE


def of_case(case: CaseRecord) -> Sign:
    """Return the sign of a case of a run: its worst verdict, or how its measuring ended."""
    if case.status is not Status.MEASURED:
        return bad(case.status.value.replace("_", " "))
    return _of_all(case.verdicts)


def of_compared(case: ComparedCase | VersionCase) -> Sign:
    """Return the sign of a case of a comparison; one whose time was not compared has not passed."""
    sign = _of_all(case.verdicts)
    lost = any(map(_is_lost, case.verdicts))
    return bad(NOT_COMPARED) if lost and sign.kind not in {BAD, DOUBT} else sign


def _of_all(verdicts: tuple[Verdict, ...]) -> Sign:
    counted = [verdict for verdict in verdicts if not is_excused(verdict)]
    outcome = worst(verdict.outcome for verdict in counted)
    if outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}:
        return of_outcome(outcome)
    if any(skip_reason(verdict) == NOT_JUDGED for verdict in counted):
        return bad(NOT_JUDGED)
    return EXCUSED if len(counted) < len(verdicts) else of_outcome(outcome)


def of_finding(finding: Finding) -> Sign:
    """Return the sign of a finding."""
    return _SEVERITIES[finding.severity]


def bad(word: str) -> Sign:
    """Return a sign in the colour of a failure."""
    return Sign(word=word, mark="\N{MULTIPLICATION X}", kind=BAD)
