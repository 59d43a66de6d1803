"""A run or a comparison as Markdown, for a check, a comment or a job's summary on GitHub. Pure: a record in, text out.

Everything that a record says goes through ``markdown_text``: the record may be a stranger's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qwenperf import units
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import token_times
from qwenperf.report.cells import compiles, tokens
from qwenperf.report.comparison import comparison_table
from qwenperf.report.html_blocks import attempt
from qwenperf.report.html_blocks import table as data_of
from qwenperf.report.html_headline import Headline, comparison_headline, run_headline
from qwenperf.report.html_signs import FAIL, Sign, of_case, of_compared
from qwenperf.report.markdown_problems import problems
from qwenperf.report.markdown_text import code, line, prose, table
from qwenperf.report.measures import is_plain, shown
from qwenperf.report.terminal import all_findings
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import CaseRecord, Finding, Metric, RunRecord, Severity
from qwenperf.traces.diff import REQUESTS, longest_lines, top_lines

MOST_CHARACTERS = 60_000
"""GitHub takes 65,535 in a comment or a summary, in units of UTF-16; what posts it adds a line or two."""

_MOST_CASES, _MOST_EXPLAINED, _TOP, _MOST_CELLS = 100, 20, 3, 120
_SPEEDS = ("decode_tokens_per_s", "request_s", "step_s")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One sentence without any markup, and everything as Markdown. ``sign`` is the outcome of the whole."""

    sign: Sign
    title: str
    text: str


def summary(record: RunRecord | ComparisonRecord, link: str = "") -> Summary:
    """Sum a record up; ``link`` is the address of more, which the caller vouches for."""
    headline = run_headline(record) if isinstance(record, RunRecord) else comparison_headline(record)
    title = line(f"{headline.sign.word}: {headline.sentence}", 250)
    return Summary(
        sign=headline.sign, title=title, text=_fitting([*_head(headline), *_body(record)], list(_foot(record, link)))
    )


def _head(headline: Headline) -> Iterator[str]:
    yield f"### {headline.sign.mark} {prose(headline.sign.word)}: {prose(headline.sentence, 600)}".replace("  ", " ")
    yield ""
    for told in headline.more:
        yield f"{prose(told, 600)}\n"
    if len(headline.tally) > 1:
        yield ", ".join(f"{count} {prose(sign.word)}" for sign, count in headline.tally) + "\n"


def _body(record: RunRecord | ComparisonRecord) -> Iterator[str]:
    if isinstance(record, RunRecord):
        yield from _warnings(all_findings(record))
        yield from attempt("the table", lambda: list(_run_table(record)), lambda note: [prose(note.text)])
        yield from problems(record)
        told = [(case.id, _spent(case)) for case in record.cases]
        yield from _details("Where a token's time goes", told)
        return
    yield from _warnings(record.findings)
    yield from attempt("the table", lambda: list(_compared_table(record)), lambda note: [prose(note.text)])
    yield from problems(record)
    slower = [(case.id, _slower(record, case)) for case in record.cases]
    yield from _details("What takes longer in head, operation by operation", slower)


def _warnings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield one line of what makes the numbers less sure than they look; the record says all of it."""
    told = Counter(one.code for one in findings if one.severity is not Severity.NOTE)
    if told:
        first = next(one for one in findings if one.severity is not Severity.NOTE)
        codes = ", ".join(code(name) + (f" ({count})" if count > 1 else "") for name, count in told.items())
        yield f"! warnings: {codes}: {prose(first.message, 300)}{' ...' if told.total() > 1 else ''}\n"


def _run_table(run: RunRecord) -> Iterator[str]:
    known: Sequence[str] = [name for name in _SPEEDS if any(name in case.metrics for case in run.cases)]
    known = known or shown([case for case in run.cases if is_plain(case)])
    rows = [
        (
            code(case.id),
            _signed(of_case(case)),
            *(_reading(case.metrics.get(name)) for name in known),
            compiles(case),
            tokens(case),
        )
        for case in run.cases[:_MOST_CASES]
    ]
    names = (name if name in _SPEEDS else prose(name) for name in known)
    yield from table(("case", "verdict", *names, "compiles cold/steady", "tokens"), rows)
    yield from _left(len(run.cases))


def _compared_table(comparison: ComparisonRecord) -> Iterator[str]:
    seen = data_of(comparison_table(comparison), "")
    rows = [
        (code(case.id), *(_cell(cell) for cell in row[1:-1]), _signed(of_compared(case)))
        for case, row in list(zip(comparison.cases, seen.rows, strict=True))[:_MOST_CASES]
    ]
    yield from table(tuple(column.name for column in seen.columns), rows)
    yield "\ntime: head over base, and its interval; pairs: of fresh processes, one of each side."
    yield from _left(len(comparison.cases))


def _left(count: int) -> Iterator[str]:
    yield f"\n{count - _MOST_CASES} more cases are in the record.\n" if count > _MOST_CASES else ""


def _signed(sign: Sign) -> str:
    return f"{sign.mark} {'**FAIL**' if sign == FAIL else _cell(sign.word)}".strip()


def _cell(text: str) -> str:
    return prose(text, _MOST_CELLS) or "-"


def _reading(metric: Metric | None) -> str:
    """Return a metric with its interval, if it has one."""
    if metric is None:
        return "-"
    told = units.quantity(metric.value, metric.unit)
    if metric.interval is None:
        return _cell(told)
    low, high = (units.quantity(end, metric.unit) for end in metric.interval)
    return _cell(f"{told} ({low} to {high})")


def _spent(case: CaseRecord) -> Sequence[str]:
    return longest_lines(case.evidence.trace_summary, _TOP)


def _slower(comparison: ComparisonRecord, case: ComparedCase) -> Sequence[str]:
    summaries = case.extra.get("trace_summaries")
    if not isinstance(summaries, dict) or not any(one.gate == SPEED for one in case.verdicts):
        return ()
    times = attempt("times", lambda: token_times(comparison.pairs, case), lambda _: {})
    return top_lines(summaries.get("base"), summaries.get("head"), _TOP, timed=times, timed_of=REQUESTS)


def _details(title: str, cases: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    told = [(name, lines) for name, lines in cases if lines][:_MOST_EXPLAINED]
    if told:
        yield f"<details><summary>{title}</summary>\n"
        for name, lines in told:
            yield f"- {code(name)}"
            yield from (f"  - {prose(one, 300)}" for one in lines)
        yield "\n</details>\n"


def _foot(record: RunRecord | ComparisonRecord, link: str) -> Iterator[str]:
    if isinstance(record, RunRecord):
        told = f"run {code(record.id)}, suite {code(record.suite)}"
    else:
        told = f"{code(record.id)}: base {code(record.base.label)}, head {code(record.head.label)}"
    more = f", [details]({link})" if link else ""
    yield f"\n<sub>{told}, {prose(record.created_at, 40)}{more}</sub>"


def _fitting(lines: Sequence[str], foot: Sequence[str]) -> str:
    """Return whole lines, as many as GitHub takes, and the foot; a block that is cut open is closed."""
    kept: list[str] = []
    room = MOST_CHARACTERS - sum(map(_units, foot))
    for one in lines:
        room -= _units(one)
        if room < 0:
            is_open = sum("<details>" in line for line in kept) > sum("</details>" in line for line in kept)
            kept += ["\n</details>\n"] if is_open else []
            kept.append("\nMore is in the record: it does not fit here.")
            break
        kept.append(one)
    return "\n".join([*kept, *foot]) + "\n"


def _units(text: str) -> int:
    """Return what a line and its end take, as GitHub counts."""
    return len(text.encode("utf-16-le", "replace")) // 2 + 1
