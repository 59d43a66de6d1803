"""Answers a bisection's questions by measuring: pairs for what is timed, one run a commit for what repeats exactly.

A timed answer is a comparison as ``qwenperf compare`` makes it. What counts as a change: between the ends, the margin;
of a commit against the good end, half of what lies between the ends; of a culprit against its parent, a quarter. A
search for what made something faster compares the other way round, so that the slower side is always head.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from qwenperf.errors import MeasurementError
from qwenperf.lab.bisect_search import Answer, Kind, Question
from qwenperf.lab.side_command import run_side, value_of
from qwenperf.lab.sides import Side
from qwenperf.schema.bisection import AnswerRecord
from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import Outcome
from qwenperf.stats.spending import Plan

LEAST_MARGIN = 0.002
"""No comparison is asked for less: nothing on any machine would decide it."""

_FEW = ("--trials", "2")
"""A deterministic value needs no more, and a count of what happens while trials are timed is of equally many."""

_SHARE = {Kind.COMMIT: 0.5, Kind.STEP: 0.25}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a comparison says: relative differences of head to base, above 0 where head is worse."""

    outcome: Outcome
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    why: str = ""
    lines: tuple[str, ...] = ()
    folder: str | None = None


class Compare(Protocol):
    """Compares two sides by a timed metric; a ``KeyboardInterrupt`` passes through."""

    def __call__(self, base: Side, head: Side, plan: Plan) -> Measured:
        """Return what pairs of both say."""
        ...


@dataclass(kw_only=True)
class Probe:
    """Answers questions about ``metric`` of ``case``. ``side`` builds a commit, once, or says why it cannot.

    ``compare`` is ``None`` for a deterministic metric. ``arguments`` of ``qwenperf run`` choose the case.
    """

    case: str
    metric: str
    arguments: tuple[str, ...]
    side: Callable[[str], Side]
    plan: Plan
    compare: Compare | None = None
    values: dict[str, float] = field(default_factory=dict)

    def ask(self, question: Question, ends: AnswerRecord | None) -> AnswerRecord:
        """Return the answer to ``question``; ``ends`` is the one about the ends, once they are known to differ."""
        begun = time.monotonic()
        told = AnswerRecord(
            kind=question.kind, base=question.base, head=question.head, attempt=question.attempt, answer=Answer.SKIP
        )
        try:
            base, head = self._build(question.base, "good"), self._build(question.head, "bad")
            found = self._fixed(told, ends) if self.compare is None else self._timed(told, base, head, ends)
        except MeasurementError as error:
            found = replace(told, why=error.message)
        return replace(
            found,
            seconds=round(time.monotonic() - begun, 3),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _build(self, sha: str, name: str) -> Side:
        try:
            return replace(self.side(sha), name=name)
        except MeasurementError as error:
            raise MeasurementError(f"{sha[:10]}: {error.message}") from error

    def _fixed(self, told: AnswerRecord, ends: AnswerRecord | None) -> AnswerRecord:
        """Say whether head's value is nearer to bad's than to good's, or is no longer 0: nothing about it is noise."""
        old, new = (self._value(sha, ends) for sha in (told.base, told.head))
        told = replace(told, base_value=old, head_value=new, change=new / old - 1 if old else None)
        if ends is None:
            answer = Answer.BAD if new != old else Answer.GOOD
        else:
            assert ends.base_value is not None
            assert ends.head_value is not None
            nearer = abs(new - ends.head_value) <= abs(new - ends.base_value)
            # How often something happens that never should depends on how long it was watched.
            counted = ends.base_value == 0 and lookup(self.metric).unit == "count"
            answer = Answer.BAD if (new != 0 if counted else nearer) else Answer.GOOD
        return replace(told, answer=answer)

    def _value(self, sha: str, ends: AnswerRecord | None) -> float:
        known = {} if ends is None else {ends.base: ends.base_value, ends.head: ends.head_value}
        value = self.values.get(sha, known.get(sha))
        if value is None:
            value = value_of(run_side(self.side(sha), (*self.arguments, *_FEW)), self.case, self.metric)
            self.values[sha] = value
        return value

    def _timed(self, told: AnswerRecord, base: Side, head: Side, ends: AnswerRecord | None) -> AnswerRecord:
        assert self.compare is not None
        margin, faster = self._margin(told, ends), _is_faster(ends)
        plan = replace(self.plan, margin=margin, looks=tuple(look * told.attempt for look in self.plan.looks))
        sides = (head, base) if faster else (base, head)
        seen = self.compare(replace(sides[0], name="base"), replace(sides[1], name="head"), plan)
        higher = lookup(self.metric).direction is Direction.HIGHER
        change, *interval = (_of_metric(value, turned=faster, higher=higher) for value in _bounds(seen))
        low, high = sorted(interval) if None not in interval else (None, None)  # type: ignore[type-var]
        better = told.kind == Kind.ENDS and seen.outcome is Outcome.IMPROVED
        return replace(
            told, answer=_answer(seen.outcome, Kind(told.kind)), why=seen.why, change=change, low=low, high=high,
            margin=margin, pairs=seen.pairs, lines=seen.lines, folder=seen.folder,
            extra={"better": True} if better else {"turned": True} if faster else {},
        )  # fmt: skip

    def _margin(self, told: AnswerRecord, ends: AnswerRecord | None) -> float:
        """Return the slowdown that counts, of a slower side over a faster one."""
        if ends is None or ends.change is None:
            return self.plan.margin
        return max(LEAST_MARGIN, _SHARE[Kind(told.kind)] * _slowdown(ends.change))


def _answer(outcome: Outcome, kind: Kind) -> Answer:
    """Say what an outcome means: an improvement answers only whether the ends differ; the search turns round then."""
    if outcome is Outcome.SKIPPED:
        return Answer.SKIP
    if outcome is Outcome.INCONCLUSIVE:
        return Answer.UNCLEAR
    changed = outcome is Outcome.FAIL or (kind is Kind.ENDS and outcome is Outcome.IMPROVED)
    return Answer.BAD if changed else Answer.GOOD


def _is_faster(ends: AnswerRecord | None) -> bool:
    """Say whether the bad end is the better one: somebody asks what made it so."""
    return bool(ends is not None and ends.extra.get("better"))


def _bounds(seen: Measured) -> tuple[float | None, float | None, float | None]:
    return seen.estimate, seen.low, seen.high


def _of_metric(worse: float | None, *, turned: bool, higher: bool) -> float | None:
    """Return how the metric changes from good to bad, by how much worse head is than base."""
    if worse is None:
        return None
    # More time is less throughput; a comparison that was made the other way round tells of good against bad.
    return 1 / (1 + worse) - 1 if turned != higher and worse > -1 else worse


def _slowdown(change: float) -> float:
    """Return by how much the slower of the ends is slower, whichever it is and whichever way its metric improves."""
    ratio = 1 + change
    return max(ratio, 1 / ratio) - 1 if ratio > 0 else abs(change)
