"""Progress of a bisection on stderr: what is compared, what that said, how much is left at most."""

from __future__ import annotations

from collections.abc import Callable

from qwenperf import units
from qwenperf.lab.bisect_search import Answer, Kind, Question
from qwenperf.report.bisect import change_of
from qwenperf.schema.bisection import AnswerRecord, BisectionRecord

_WORDS = {
    Answer.GOOD: "not changed",
    Answer.BAD: "changed",
    Answer.SKIP: "skipped",
    Answer.UNCLEAR: "cannot be told",
}


class BisectProgress:
    """One line before a comparison, one after it, one a pair of runs."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def asking(self, question: Question, record: BisectionRecord, most: int) -> None:
        """Say what is compared now."""
        again = f", attempt {question.attempt}" if question.attempt > 1 else ""
        what = {
            Kind.ENDS: f"do good {question.base[:10]} and bad {question.head[:10]} differ",
            Kind.COMMIT: f"comparing {_told(question.head, record)} with good",
            Kind.STEP: f"comparing {_told(question.head, record)} with its parent {question.base[:10]}",
        }[question.kind]
        self._say(f"{what}{again}; at most {most} comparison{'s' * (most != 1)} left{_time(record, most)}")

    def answered(self, answer: AnswerRecord, record: BisectionRecord, most: int) -> None:
        """Say what came out."""
        change = change_of(answer, record.metric)
        told = f": {answer.why}" if answer.why and answer.answer != Answer.GOOD else ""
        size = "" if change == "-" else f" ({change})"
        self._say(f"{answer.head[:10]}: {_WORDS[Answer(answer.answer)]}{size}{told}")
        if most and record.suspects:
            self._say(f"  {len(record.suspects)} suspects, at most {most} left{_time(record, most)}")

    def run_pair_ended(self, number: int, most: int, stage: int, failed: str | None) -> None:
        """Say that a pair of runs is over."""
        name = "pair of runs" if stage == 1 else "confirming pair of runs"
        self._say(f"  {name} {number} of at most {most}{f' broke: {failed}' if failed else ''}")


def _told(sha: str, record: BisectionRecord) -> str:
    subject = next((one.subject for one in record.commits if one.sha == sha), "")
    return f"{sha[:10]} ({subject})" if subject else sha[:10]


def _time(record: BisectionRecord, most: int) -> str:
    """Say how long the rest takes if each comparison takes as long as the longest so far; empty before the first."""
    taken = [one.seconds for one in record.answers]
    return f", at most {units.seconds(max(taken) * most)}" if taken and most else ""
