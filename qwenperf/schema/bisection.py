"""Frozen records of a bisection, which ``bisect.json`` holds: the commits, what was asked of each, and what was found.

The list of answers is the whole state: a search that is started again reads it and goes on behind its last entry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from qwenperf.schema.documents import read_document
from qwenperf.schema.records import Json
from qwenperf.schema.writing import encode

BISECTION_SCHEMA = "qwenperf.bisection.v1"


@dataclass(frozen=True, kw_only=True)
class CommitRecord:
    """One commit; ``date`` is its author's, ISO 8601 with its zone."""

    sha: str
    parents: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    subject: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AnswerRecord:
    """One question and its answer: is ``head`` changed, seen from ``base``?

    Attributes:
      kind: ``ends`` (bad against good), ``commit`` (a commit against good) or ``step`` (a culprit against its parent).
      base: the commit compared with.
      head: the commit asked about.
      attempt: 1, or more where earlier answers of the same question were unclear.
      answer: ``good``, ``bad``, ``skip`` or ``unclear``.
      why: why a commit was skipped, or the answer in words.
      change: of the metric from ``base`` to ``head``, relative; ``low`` and ``high`` are its interval.
      margin: what counted as a change.
      base_value: the metric's value in ``base``, where it is deterministic; ``head_value`` that in ``head``.
      pairs: of processes behind a timed answer.
      lines: what took longer, from traces.
      folder: of the comparison, relative to the bisection's.
      seconds: that it took, building included.
      at: when it ended.
    """

    kind: str
    base: str
    head: str
    answer: str
    attempt: int = 1
    why: str = ""
    change: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    base_value: float | None = None
    head_value: float | None = None
    pairs: int | None = None
    lines: tuple[str, ...] = ()
    folder: str | None = None
    seconds: float = 0.0
    at: str = ""
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BisectionRecord:
    """A search for the commit that changed one metric of one case.

    Attributes:
      id: name of its folder.
      created_at: when it was begun.
      case: id of the case.
      metric: name of the metric.
      good: the older end, and ``bad`` the newer one: full hashes.
      good_name: what the caller called it; ``bad_name`` likewise.
      first_parent: whether merged branches are taken as one commit.
      plan: how it measures; another plan is another bisection.
      commits: those between the ends, oldest first, ``bad`` included and ``good`` not.
      good_commit: the older end itself.
      answers: everything asked so far, in order.
      end: ``culprit``, ``range``, ``same``, ``unclear`` or ``broken``; empty while it goes on.
      suspects: commits among which the culprit is, oldest first: one where it was found.
      interrupted: whether the last process was ended from outside.
    """

    id: str
    created_at: str
    case: str
    metric: str
    good: str
    bad: str
    schema: str = BISECTION_SCHEMA
    good_name: str = ""
    bad_name: str = ""
    first_parent: bool = False
    plan: Json = field(default_factory=dict)
    commits: tuple[CommitRecord, ...] = ()
    good_commit: CommitRecord | None = None
    answers: tuple[AnswerRecord, ...] = ()
    end: str = ""
    suspects: tuple[str, ...] = ()
    interrupted: bool = False
    extra: Json = field(default_factory=dict)


def bisection_to_json(record: BisectionRecord) -> dict[str, object]:
    """Return ``record`` as plain JSON data."""
    written: dict[str, object] = encode(record, BisectionRecord, "", [])
    return written


def bisection_dumps(record: BisectionRecord) -> str:
    """Return ``record`` as JSON text."""
    return json.dumps(bisection_to_json(record), indent=1, allow_nan=False) + "\n"


def bisection_loads(text: str, source: str) -> BisectionRecord:
    """Read a bisection from JSON text. ``source`` is the file that messages name.

    Raises:
      RecordError: it is none, or cut short.
    """
    return read_document(text, source, BisectionRecord, BISECTION_SCHEMA, advice="Begin anew with --restart.")
