"""What a run or a comparison says about lines of code: failures, as remarks of a check. Pure: records in, data out.

A place is named only where the caller knows the file: a record may be a stranger's, and its paths may be shortened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf.gate.excuses import is_excused
from qwenperf.gate.shapes import GATE as SHAPES
from qwenperf.gate.throughput import GATE as THROUGHPUT
from qwenperf.report.html_signs import BAD, DOUBT, of_answer
from qwenperf.report.markdown_text import line
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import CaseRecord, RunRecord, Status, Verdict

ELSEWHERE = ".github"
"""The path of what is said of no file: GitHub wants one, and shows such an annotation with the check alone."""

MOST = 100
_PLACE = re.compile(r"(?P<path>[^\s:][^:\n]{0,300}):(?P<line>[1-9][0-9]{0,5})\Z")
_LEVELS = {BAD: "failure", DOUBT: "warning"}

Known = Callable[[str], str]
"""Returns the path in the repository of a file that a record names, empty where there is none such."""


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """A remark on a line. ``level``: failure, warning or notice."""

    path: str
    line: int
    level: str
    title: str
    message: str


def remarks(record: RunRecord | ComparisonRecord, known: Known = lambda _: "") -> tuple[Annotation, ...]:
    """Return a remark for each failure, and for each case that was not measured, not judged or could not be decided."""
    found = _of_run(record, known) if isinstance(record, RunRecord) else _of_comparison(record)
    return tuple(sorted(found, key=lambda one: one.level != "failure")[:MOST])


def _of_run(run: RunRecord, known: Known) -> Iterator[Annotation]:
    for case in run.cases:
        yield from (_remark(case.id, one, _place(case, one, known)) for one in case.verdicts if _level(one))
        if case.status is not Status.MEASURED:
            told = (case.error or case.status.value.replace("_", " ")).strip().splitlines() or [""]
            yield _annotation(case.id, "failure", f"not measured: {told[0]}", (ELSEWHERE, 1))
    for name in sorted({*run.declared} - {case.id for case in run.cases}):
        yield _annotation(name, "failure", "missing: asked for and not measured", (ELSEWHERE, 1))


def _of_comparison(comparison: ComparisonRecord) -> Iterator[Annotation]:
    for one in comparison.verdicts:
        yield _annotation("all cases", "failure", _told(one), (ELSEWHERE, 1))
    for case in comparison.cases:
        yield from (_remark(case.id, one, (ELSEWHERE, 1)) for one in case.verdicts if _level(one))


def _level(verdict: Verdict) -> str:
    """Return how loud a verdict is, empty where nothing is to be said."""
    return _LEVELS.get(of_answer(verdict).kind, "") if not is_excused(verdict) else ""


def _remark(case: str, verdict: Verdict, place: tuple[str, int]) -> Annotation:
    return _annotation(case, _level(verdict), _told(verdict), place)


def _told(verdict: Verdict) -> str:
    parts = (f"{verdict.gate}: {verdict.summary}", *verdict.detail[:5], verdict.advice)
    return "\n".join(line(one, 500) for one in parts if one)


def _annotation(case: str, level: str, message: str, place: tuple[str, int]) -> Annotation:
    path, number = place
    return Annotation(path=path, line=number, level=level, title=line(case, 200) or "-", message=message)


def _place(case: CaseRecord, verdict: Verdict, known: Known) -> tuple[str, int]:
    """Return the first line that a verdict is about and that the repository has."""
    for told in _places(case, verdict):
        seen = _PLACE.match(told)
        path = known(seen["path"]) if seen else ""
        if seen and path:
            return path, int(seen["line"])
    return ELSEWHERE, 1


def _places(case: CaseRecord, verdict: Verdict) -> Iterator[str]:
    if verdict.gate == SHAPES:
        yield from (event.location for event in case.evidence.compiles if event.phase == "steady")
    summary: Any = case.evidence.trace_summary
    if verdict.gate == THROUGHPUT and isinstance(summary, Mapping):
        operations = summary.get("operations")
        for row in operations if isinstance(operations, list) else ():
            if isinstance(row, Mapping) and isinstance(row.get("source"), str):
                yield row["source"]
