"""A comparison as people read it in a terminal. Pure: the record in, rich renderables out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf.gate.speed import GATE as SPEED
from qwenperf.report.html_signs import NEEDED, of_compared, of_verdict
from qwenperf.report.styles import KINDS
from qwenperf.report.terminal import finding_line
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import Outcome, Verdict

_PROGRAMS = {"True": "same", "False": "other"}
_CASE_WIDTH = 17
_SHOWN = {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.IMPROVED}


def comparison_report(comparison: ComparisonRecord, record: str) -> Iterator[RenderableType]:
    """Yield the whole report: sides, a row a case, what needs attention, what was not compared, the file."""
    yield Text(f"base {comparison.base.label}, head {comparison.head.label}", style="bold")
    yield comparison_table(comparison)
    yield Text("time: head over base, and its interval. pairs: of fresh processes, one of each side.", style="dim")
    for verdict in comparison.verdicts:
        yield _problem("", verdict)
    for case in comparison.cases:
        for verdict in case.verdicts:
            if verdict.outcome in _SHOWN or (verdict.outcome is Outcome.SKIPPED and verdict.gate in NEEDED):
                yield _problem(case.id, verdict)
    for name in comparison.extra.get("new", ()):
        yield Text(f"new: {name}: only head has it; nothing to compare with.")
    for old, new in comparison.extra.get("renamed", {}).items():
        yield Text(f"renamed: {old} in base is {new} in head.")
    yield from (finding_line(finding) for finding in comparison.findings)
    broken = [pair for pair in comparison.pairs if pair.failed]
    for pair in broken[:3]:
        yield Text(f"pair {pair.number} (stage {pair.stage}) broke: {pair.failed}", style="yellow")
    if comparison.interrupted:
        yield Text("interrupted: the pairs measured before are kept.", style="yellow")
    yield Text(f"record: {record}", no_wrap=True)


def comparison_table(comparison: ComparisonRecord) -> Table:
    """Return a row a case: the decision, what it is of, and the verdict."""
    table = Table(box=None, pad_edge=False)
    for name in ("case", "time", "interval", "cpu", "pairs", "programs", "verdict"):
        table.add_column(name, no_wrap=name != "case", overflow="fold")
    for case in comparison.cases:
        table.add_row(*_cells(case))
    return table


def _cells(case: ComparedCase) -> Iterator[str | Text]:
    speed = next((verdict for verdict in case.verdicts if verdict.gate == SPEED), None)
    seen = {} if speed is None else speed.data.get("stage_1", {})
    yield _folded(case.id)
    yield _percent(seen.get("estimate"))
    low, high = seen.get("low"), seen.get("high")
    yield "-" if low is None or high is None else f"{low:+.1%} to {high:+.1%}"
    yield _percent(None if speed is None else speed.data.get("cpu"))
    yield str(seen.get("pairs", "-"))
    programs = next((verdict for verdict in case.verdicts if verdict.gate == "programs"), None)
    yield "-" if programs is None else _PROGRAMS.get(str(programs.data.get("same")), "-")
    sign = of_compared(case)
    yield Text(sign.word, style=KINDS[sign.kind])


def _folded(name: str) -> str:
    """Return an id on two lines, or on more where its parts are long: on one, the numbers do not fit 80 columns."""
    parts = name.rsplit("/", 1)
    return "/\n".join(parts if len(parts[0]) <= _CASE_WIDTH else name.split("/"))


def _problem(case: str, verdict: Verdict) -> Text:
    sign = of_verdict(verdict)
    parts = [sign.word, *([case] if case else []), verdict.gate, verdict.summary]
    lines = [": ".join(parts), *(f"    {line}" for line in verdict.detail)]
    if verdict.advice:
        lines.append(f"    {verdict.advice}")
    text = Text("\n".join(lines))
    text.stylize(KINDS[sign.kind], 0, len(parts[0]))
    return text


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"
