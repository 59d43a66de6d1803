"""Which commit to ask about next, and what follows from the answers: a state machine without any state but its log.

``Search.next_step`` reads the whole list of answers anew each time, so that a search that was interrupted goes on from
that list alone. It measures nothing and knows no git. Histories may have merges: as in ``git bisect``, the culprit is
taken to be an ancestor of every bad commit and of no good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


class Answer(StrEnum):
    """What a comparison says of a commit. ``SKIP``: it cannot be measured at all; ``UNCLEAR``: noise hides it."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    UNCLEAR = "unclear"


class Kind(StrEnum):
    """What is asked: do the ends differ, is a commit changed against the good end, did a culprit change its parent."""

    ENDS = "ends"
    COMMIT = "commit"
    STEP = "step"


class End(StrEnum):
    """How a search ends.

    ``CULPRIT`` is one commit. ``RANGE``: it is one of several that cannot be told apart. ``SAME``: the ends do not
    differ; ``UNCLEAR``: whether they do cannot be told; ``BROKEN``: one of them cannot be measured.
    """

    CULPRIT = "culprit"
    RANGE = "range"
    SAME = "same"
    UNCLEAR = "unclear"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Compare ``head`` with ``base``, for the ``attempt``-th time."""

    kind: Kind
    base: str
    head: str
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class Found:
    """What came out: ``suspects``, oldest first; ``base`` is the parent that a culprit is a change to."""

    end: End
    suspects: tuple[str, ...] = ()
    base: str = ""


Said = Sequence[tuple[Question, Answer]]


@dataclass(kw_only=True)
class _Known:
    """What the answers so far amount to."""

    answers: dict[str, Answer] = field(default_factory=dict)
    unclear: dict[str, int] = field(default_factory=dict)
    confirmed: set[tuple[str, str]] = field(default_factory=set)
    steps: int = 0
    reopened: int = 0


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search through ``parents``: commits after ``good`` up to ``bad`` with their parents, parents first.

    ``confirm``: a culprit is compared with its parents before it is named, as noise may have misled the search, or with
    the good end where that has them all. Where it changed nothing, both are asked about again, the next time all
    commits, at most ``most_reopened`` times in all.
    An answer that stays unclear after ``most_attempts`` is none.
    """

    good: str
    bad: str
    parents: Mapping[str, tuple[str, ...]]
    confirm: bool = True
    most_attempts: int = 3
    most_reopened: int = 2

    def next_step(self, said: Said) -> Question | Found:
        """Return the next question, or the end of the search."""
        ends = [answer for question, answer in said if question.kind is Kind.ENDS]
        if not ends or (ends[-1] is Answer.UNCLEAR and len(ends) < self.most_attempts):
            return Question(kind=Kind.ENDS, base=self.good, head=self.bad, attempt=1 + len(ends))
        end = {Answer.SKIP: End.BROKEN, Answer.GOOD: End.SAME, Answer.UNCLEAR: End.UNCLEAR}.get(ends[-1])
        if end is not None:
            return Found(end=end)
        return self._between(self._known(said))

    def suspects(self, said: Said) -> tuple[str, ...]:
        """Return the commits that may still be the culprit, oldest first."""
        return self._names(self._suspected(self._known(said)))

    def most_left(self, said: Said) -> int:
        """Return how many questions are left at most, as long as every answer is clear and no commit is skipped."""
        if isinstance(self.next_step(said), Found):
            return 0
        begun = any(question.kind is Kind.ENDS and answer is Answer.BAD for question, answer in said)
        count = len(self.suspects(said)) if begun else len(self.parents)
        return (not begun) + (count - 1).bit_length() + self.confirm

    def _between(self, known: _Known) -> Question | Found:
        suspected = self._suspected(known)
        names = self._names(suspected)
        if known.reopened > self.most_reopened:
            return Found(end=End.RANGE, suspects=names)
        last = self._last_bad(suspected, known)
        asked = max(self._askable(suspected, last, known), key=lambda one: one[0], default=None)
        if asked is not None:
            name = asked[1]
            return Question(kind=Kind.COMMIT, base=self.good, head=name, attempt=1 + known.unclear.get(name, 0))
        if len(names) > 1:
            return Found(end=End.RANGE, suspects=names)
        # A parent that the good end has, or is, stands at its level.
        bases = [parent for parent in self.parents[last] if parent in self.parents] or [self.good]
        open_bases = [base for base in bases if (base, last) not in known.confirmed]
        if self.confirm and open_bases:
            return Question(kind=Kind.STEP, base=open_bases[0], head=last, attempt=1 + known.steps)
        return Found(end=End.CULPRIT, suspects=(last,), base=bases[0])

    def _askable(self, suspected: int, last: str, known: _Known) -> Iterator[tuple[int, str]]:
        """Yield what is worth asking about, each with how many suspects are left at most when it is answered, less.

        Around a commit that was skipped its neighbours are worth nearly as much, and are asked instead.
        """
        count = suspected.bit_count()
        for name in self._names(suspected):
            if name != last and name not in known.answers:
                before = (self._ancestors[name] & suspected).bit_count()
                yield min(before, count - before), name

    def _last_bad(self, suspected: int, known: _Known) -> str:
        """Return the oldest commit that is known to be bad: a culprit is one of its ancestors, or itself."""
        bad = [name for name, answer in known.answers.items() if answer is Answer.BAD and self._bit(name) & suspected]
        return min(bad, key=lambda name: (self._ancestors[name] & suspected).bit_count(), default=self.bad)

    def _suspected(self, known: _Known) -> int:
        suspected = self._ancestors[self.bad]
        for name, answer in known.answers.items():
            if answer is Answer.BAD:
                suspected &= self._ancestors[name]
            elif answer is Answer.GOOD:
                suspected &= ~self._ancestors[name]
        return suspected

    def _known(self, said: Said) -> _Known:
        known = _Known()
        for question, answer in said:
            if question.kind is Kind.COMMIT:
                self._hear_commit(known, question.head, answer)
            elif question.kind is Kind.STEP:
                self._hear_step(known, question, answer)
        return known

    def _hear_commit(self, known: _Known, name: str, answer: Answer) -> None:
        if answer is not Answer.UNCLEAR:
            known.answers[name] = answer
            return
        known.unclear[name] = known.unclear.get(name, 0) + 1
        if known.unclear[name] >= self.most_attempts:
            known.answers[name] = answer

    def _hear_step(self, known: _Known, question: Question, answer: Answer) -> None:
        """Take in what a culprit is to its parent: where it changed nothing, an answer before was wrong."""
        if answer is Answer.BAD or answer is Answer.SKIP:  # nothing speaks against it
            known.confirmed.add((question.base, question.head))
            return
        known.steps += 1
        if answer is Answer.GOOD or known.steps >= self.most_attempts:
            known.steps, known.reopened = 0, known.reopened + 1
            # The next time the wrong answer must be another one: none is believed any more.
            doubted = (question.base, question.head) if known.reopened == 1 else tuple(known.answers)
            for name in doubted:
                known.unclear.pop(name, None)
                if known.answers.get(name) is not Answer.SKIP:
                    known.answers.pop(name, None)

    @cached_property
    def _order(self) -> tuple[str, ...]:
        return tuple(self.parents)

    @cached_property
    def _ancestors(self) -> dict[str, int]:
        """Each commit's ancestors, itself included, as a set of bits."""
        found: dict[str, int] = {}
        for index, (name, parents) in enumerate(self.parents.items()):
            bits = 1 << index
            for parent in parents:
                bits |= found.get(parent, 0)
            found[name] = bits
        return found

    def _bit(self, name: str) -> int:
        return 1 << self._order.index(name)

    def _names(self, bits: int) -> tuple[str, ...]:
        return tuple(name for index, name in enumerate(self._order) if bits >> index & 1)
