"""A bisection from start to end, kept on disk after each answer: started again, it goes on behind the last one.

``bisect.json`` is the state, whole after each answer; a lock keeps a second process out. What is asked next is
``bisect_search``'s business, how it is answered ``bisect_probe``'s.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.gate import verdict
from qwenperf.lab.bisect_environment import KEY, Unchanged
from qwenperf.lab.bisect_history import Ends
from qwenperf.lab.bisect_search import Answer, End, Found, Kind, Question, Search
from qwenperf.lab.run_folder import write_text, writing
from qwenperf.schema.bisection import AnswerRecord, BisectionRecord, bisection_dumps, bisection_loads

FILE = "bisect.json"

_EXIT = {
    End.CULPRIT: verdict.FINE,
    End.RANGE: verdict.INCONCLUSIVE,
    End.UNCLEAR: verdict.INCONCLUSIVE,
    End.SAME: verdict.USAGE,
    End.BROKEN: verdict.NOT_MEASURED,
}


class Listener(Protocol):
    """Who wants to know what is going on."""

    def asking(self, question: Question, record: BisectionRecord, most: int) -> None:
        """A commit is built and measured now; at most ``most`` questions are left, this one included."""
        ...

    def answered(self, answer: AnswerRecord, record: BisectionRecord, most: int) -> None:
        """A question is answered; at most ``most`` are left."""
        ...


Ask = Callable[[Question, AnswerRecord | None], AnswerRecord]

Explain = Callable[[str, str], tuple[str, ...]]
"""Says what the second commit spends more time in than the first."""


@dataclass(kw_only=True)
class Bisection:
    """Runs one bisection; ``record`` is what is known when it begins.

    ``explain`` is asked about a culprit that no comparison has traced, ``unchanged`` before and after each answer
    whether the environment is what it was.
    """

    record: BisectionRecord
    folder: Path
    search: Search
    ask: Ask
    listener: Listener
    explain: Explain | None = None
    unchanged: Unchanged | None = None

    def run(self) -> BisectionRecord:
        """Ask until the search ends; an interrupt keeps the answers that there are.

        Raises:
          OutputError: the state cannot be written.
          EnvironmentUnfitError: what measures is no longer what it was; the answers of before are kept.
        """
        self._keep(replace(self.record, interrupted=False))
        try:
            while isinstance(step := self.search.next_step(said(self.record)), Question):
                self._answer(step)
            more = self._explained(step)
        except KeyboardInterrupt:
            self._keep(replace(self.record, interrupted=True))
            return self.record
        except EnvironmentUnfitError:
            self._keep(replace(self.record, interrupted=True))
            raise
        self._keep(replace(self.record, end=step.end, suspects=step.suspects, extra={**self.record.extra, **more}))
        return self.record

    def _explained(self, found: Found) -> Mapping[str, Any]:
        """Return the parent of a culprit, and what takes longer than in it where no answer says so."""
        more: dict[str, Any] = {"parent": found.base} if found.base else {}
        if found.end is End.CULPRIT and self.explain is not None:
            told = [one for one in self.record.answers if (one.base, one.head) == (found.base, found.suspects[0])]
            if not any(one.lines for one in told):
                lines = self.explain(found.base, found.suspects[0])
                more |= {"lines": list(lines)} if lines else {}
        return more

    def _answer(self, question: Question) -> None:
        self.listener.asking(question, self.record, self.search.most_left(said(self.record)))
        if self.unchanged is not None:
            self.unchanged.check()
        answer = self.ask(question, ends_of(self.record))
        if self.unchanged is not None:
            self.unchanged.check()
            answer = replace(answer, extra={**answer.extra, KEY: self.unchanged.key})
        record = replace(self.record, answers=(*self.record.answers, answer))
        self._keep(replace(record, suspects=self.search.suspects(said(record))))
        self.listener.answered(answer, self.record, self.search.most_left(said(self.record)))

    def _keep(self, record: BisectionRecord) -> None:
        self.record = record
        write_text(self.folder / FILE, bisection_dumps(record))


def said(record: BisectionRecord) -> list[tuple[Question, Answer]]:
    """Return the answers so far, as the search reads them."""
    return [
        (Question(kind=Kind(one.kind), base=one.base, head=one.head, attempt=one.attempt), Answer(one.answer))
        for one in record.answers
    ]


def ends_of(record: BisectionRecord) -> AnswerRecord | None:
    """Return the answer that the ends differ; ``None`` as long as that is not known."""
    found = [one for one in record.answers if one.kind == Kind.ENDS and one.answer == Answer.BAD]
    return found[-1] if found else None


def new_record(case: str, metric: str, ends: Ends, plan: Mapping[str, Any], **more: Any) -> BisectionRecord:
    """Return a bisection in which nothing was asked yet. Its id tells it from all others: the same search has the same.

    ``more`` are names of the ends, and whether merged branches are single commits.
    """
    identity = [case, metric, ends.good.sha, ends.bad.sha, bool(more.get("first_parent")), plan]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    return BisectionRecord(
        id=f"bisect-{digest}",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        case=case,
        metric=metric,
        good=ends.good.sha,
        bad=ends.bad.sha,
        plan=plan,
        commits=ends.commits,
        good_commit=ends.good,
        **more,
    )


@contextmanager
def opened(out: Path, wanted: BisectionRecord, *, restart: bool = False) -> Iterator[tuple[BisectionRecord, Path]]:
    """Yield the state of ``wanted`` below ``out``, an earlier one or a new one, and its folder, with nobody else in it.

    Raises:
      UsageError: another process is at it.
      RecordError: what lies there cannot be read, and ``restart`` was not given.
      OutputError: the folder cannot be made.
    """
    folder = out / wanted.id
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another process is at this bisection, in {folder}.") from None
        file = folder / FILE
        known = bisection_loads(file.read_text(encoding="utf-8"), str(file)) if file.is_file() and not restart else None
        yield known or wanted, folder


def exit_code(record: BisectionRecord) -> int:
    """Return what the command ends with: 0 for a culprit, 3 where noise or skipped commits hide it, 2 for equal ends.

    5 where an end cannot be measured, 130 where the search is not over.
    """
    if record.interrupted or not record.end:
        return verdict.INTERRUPTED
    return _EXIT[End(record.end)]
