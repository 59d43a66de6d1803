"""Answers a bisection's questions by measuring: pairs for what is timed, one run a commit for what repeats exactly.

Whether the ends differ is a comparison as ``qwenperf compare`` makes it. It also measures by how much, so that of a
commit only needs to be told whether it is like the good end or like the bad one (``stats.levels``), which takes few
pairs. A culprit is told from its parent more strictly, for that is what a wrong name rests on. A search for what made
something faster compares the other way round, so that the slower side is always head.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from qwenperf.errors import MeasurementError
from qwenperf.lab.bisect_search import Answer, Kind, Question
from qwenperf.lab.side_command import run_side, value_of
from qwenperf.lab.sides import Side
from qwenperf.schema.bisection import AnswerRecord
from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import Outcome
from qwenperf.stats.levels import Levels, measured_level
from qwenperf.stats.pairs import log_ratio, relative
from qwenperf.stats.spending import LEAST_PAIRS, Plan

LEAST_MARGIN = 0.002
"""No comparison is asked for less: nothing on any machine would decide it."""

_FEW = ("--trials", "2")
"""A deterministic value needs no more, and a count of what happens while trials are timed is of equally many."""

_SHARE = {Kind.COMMIT: 1.0, Kind.STEP: 0.5}
"""Of what the ends differ by at least, what a changed commit has and what a culprit adds."""

WRONG = {Kind.COMMIT: 0.02, Kind.STEP: 0.005}
"""How often unchanged code may be told as changed. A commit that was told wrongly is found out by the culprit's step; a
step that is, names a wrong commit."""

OVERLOOKED = 0.02
"""How often changed code may be told as unchanged: that costs questions."""

_UNKNOWN = 0.5
"""Of what the ends differ by, what they differ by at least where an older record does not say."""

_LEAST_DEVIATION = 1e-4


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
    values: tuple[float, ...] = ()
    """Log ratios of all pairs."""


class Compare(Protocol):
    """Compares two sides by a timed metric; a ``KeyboardInterrupt`` passes through."""

    def __call__(
        self, base: Side, head: Side, plan: Plan, levels: Levels | None = None, *, traced: bool = False
    ) -> Measured:
        """Return what pairs of both decide by ``plan``, or which of ``levels`` they lie at; ``traced``: and why."""
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
        faster, levels = _is_faster(ends), None if ends is None else self._levels(told, ends)
        margin = self.plan.margin if levels is None else relative(levels.changed)
        plan = replace(self.plan, margin=margin, looks=tuple(look * told.attempt for look in self.plan.looks))
        sides = (head, base) if faster else (base, head)
        older, newer = replace(sides[0], name="base"), replace(sides[1], name="head")
        seen = self.compare(older, newer, plan, levels, traced=told.kind == Kind.STEP)
        higher = lookup(self.metric).direction is Direction.HIGHER
        change, *interval = (_of_metric(value, turned=faster, higher=higher) for value in _bounds(seen))
        low, high = sorted(interval) if None not in interval else (None, None)  # type: ignore[type-var]
        answer = _answer(seen.outcome, Kind(told.kind))
        return replace(
            told, answer=answer, why=seen.why, change=change, low=low, high=high,
            margin=margin, pairs=seen.pairs, lines=seen.lines, folder=seen.folder,
            extra=_of_ends(seen, answer) if ends is None else {"turned": True} if faster else {},
        )  # fmt: skip

    def _levels(self, told: AnswerRecord, ends: AnswerRecord) -> Levels:
        """Return what is asked of the pairs of a commit or of a step, from what the ends have shown."""
        change = _slowdown(ends.change or self.plan.margin)
        known = ends.extra.get("level", {})
        least = log_ratio(max(LEAST_MARGIN, known.get("least", _UNKNOWN * change)))
        return Levels(
            changed=_SHARE[Kind(told.kind)] * least,
            expected=max(least, log_ratio(change)),
            deviation=max(_LEAST_DEVIATION, known.get("deviation", least)),
            # All attempts together err twice as often as the first at most.
            false_changed=WRONG[Kind(told.kind)] / 2 ** (told.attempt - 1),
            false_unchanged=OVERLOOKED / 2 ** (told.attempt - 1),
            most=self.plan.looks[-1] * told.attempt,
        )


def _of_ends(seen: Measured, answer: Answer) -> Mapping[str, Any]:
    """Return what an answer about the ends says beside: whether bad is the better one, and where changed code lies."""
    if answer is not Answer.BAD:
        return {}
    better = seen.outcome is Outcome.IMPROVED
    values = [-value if better else value for value in seen.values]
    extra: dict[str, Any] = {"better": True} if better else {}
    if len(values) >= LEAST_PAIRS:
        least, deviation = measured_level(values)
        half = log_ratio(_slowdown(seen.estimate)) / 2 if seen.estimate is not None else 0.0
        extra["level"] = {"least": relative(max(least, half)), "deviation": deviation}
    return extra


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
