"""A record as whoever posts it needs it: its exit code, one sentence, Markdown, and remarks as GitHub wants them. Pure.

What a job's command ends with and what a check says come from here, so that the two are never apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.gate import comparison as compared
from qwenperf.gate.verdict import exit_code, strongest
from qwenperf.report.annotations import remarks
from qwenperf.report.html_signs import GOOD
from qwenperf.report.markdown import summary
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import RunRecord


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A record summed up. ``is_settled``: all of it passed, so that no doubt is left. ``sha``: the commit it says."""

    exit_code: int
    is_settled: bool
    title: str
    text: str
    link: str
    annotations: tuple[Mapping[str, Any], ...]
    sha: str = ""


def judged(
    record: RunRecord | ComparisonRecord,
    source: str,
    link: str = "",
    inconclusive: str = "warn",
    known: Callable[[str], str] = lambda _: "",
) -> Judged:
    """Sum a record up; ``link`` is the address of more, ``known`` finds a file of the repository by its path's end.

    Raises:
      RecordError: it holds what no version of ours writes; ``source`` says whose record.
    """
    try:
        told = summary(record, link)
        found = remarks(record, known)
        code = _exit_code(record, inconclusive)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RecordError(f"{source}: it holds what this version does not write: {error}.") from error
    return Judged(
        exit_code=code,
        is_settled=told.sign.kind == GOOD,
        title=told.title,
        text=told.text,
        link=link,
        annotations=tuple(_annotation(asdict(one)) for one in found),
        sha=str((record.head if isinstance(record, ComparisonRecord) else record).commit.get("sha") or ""),
    )


def _exit_code(record: RunRecord | ComparisonRecord, inconclusive: str) -> int:
    if isinstance(record, ComparisonRecord):
        return compared.exit_code(record, inconclusive)
    others = [case.extra["exit_code"] for case in record.cases if "exit_code" in case.extra]
    return strongest([exit_code(record, inconclusive), *(code if isinstance(code, int) else 70 for code in others)])


def _annotation(found: Mapping[str, Any]) -> Mapping[str, Any]:
    number = found["line"]
    place = {"path": found["path"], "start_line": number, "end_line": number, "annotation_level": found["level"]}
    return {**place, "title": found["title"], "message": found["message"]}
