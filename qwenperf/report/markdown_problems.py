"""What needs attention about a run or a comparison, as points of a list: all that makes a check red has one.

Everything that a record says goes through ``markdown_text``: the record may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from qwenperf.report.html_headline import ended
from qwenperf.report.html_signs import BAD, DOUBT, FAIL, GOOD, Sign, of_answer
from qwenperf.report.markdown_text import code, prose
from qwenperf.schema.comparison import ComparisonRecord
from qwenperf.schema.records import Outcome, RunRecord, Status, Verdict

_MOST = 20
_FIRST = (BAD, DOUBT, GOOD)

_Point: TypeAlias = tuple[int, str]
"""A line with its rank, the lowest first."""


def problems(record: RunRecord | ComparisonRecord) -> Iterator[str]:
    """Yield a point for whatever is no plain pass: what is red, then what is in doubt, then what improved."""
    found = list(_of_run(record) if isinstance(record, RunRecord) else _of_comparison(record))
    found.sort(key=lambda point: point[0])
    yield from (line for _, line in found[:_MOST])
    if len(found) > _MOST:
        yield f"- {len(found) - _MOST} more are in the record."
    yield ""


def _of_run(run: RunRecord) -> Iterator[_Point]:
    for case in run.cases:
        if case.status is not Status.MEASURED:
            yield 0, f"- not measured {code(case.id)}: {prose(ended(case), 500)}"
        yield from _of_case(case.id, case.verdicts)
    for name in sorted({*run.declared} - {case.id for case in run.cases}):
        yield 0, f"- missing {code(name)}: asked for and not measured"


def _of_comparison(comparison: ComparisonRecord) -> Iterator[_Point]:
    yield from ((-1, _told("", one, of_answer(one))) for one in comparison.verdicts)
    for case in comparison.cases:
        yield from _of_case(case.id, case.verdicts)


def _of_case(name: str, verdicts: Sequence[Verdict]) -> Iterator[_Point]:
    for one in verdicts:
        sign = of_answer(one)
        if sign.kind in {BAD, DOUBT} or one.outcome is Outcome.IMPROVED:
            yield _FIRST.index(sign.kind), _told(name, one, sign)


def _told(name: str, verdict: Verdict, sign: Sign) -> str:
    place = f" {code(name)}" if name else ""
    word = verdict.outcome.value if sign == FAIL else sign.word
    told = f"- {prose(word)}{place} {prose(verdict.gate, 80)}: {prose(verdict.summary, 500)}"
    more = " ".join(filter(None, (str(verdict.data.get("excused") or ""), verdict.advice)))
    return f"{told.removesuffix('.')}. {prose(more, 300)}".rstrip() if more else told
