"""What changed in compiled programs, as people read it: a table a target, and the operations that explain it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.gate.aot_difference import PROGRAM
from qwenperf.gate.aot_facts import FACTS, Fact
from qwenperf.program.difference import explain
from qwenperf.report.aot import groups
from qwenperf.report.aot_problems import problems
from qwenperf.report.styles import STYLES
from qwenperf.report.terminal import finding_line
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import Outcome, Verdict

_ALWAYS = ("temp_bytes", "peak_bytes", "hbm_bytes", "flops", "estimate_s")
"""Facts that are shown of a program that changed, also where they did not."""

_MOST_OPERATIONS = 8


def difference_report(base: AotRecord, head: AotRecord, labels: tuple[str, str]) -> Iterator[RenderableType]:
    """Yield the whole report of ``head``, which has been judged against ``base``; ``labels`` are what people call them.

    Programs that did not change share a line.
    """
    yield Text(f"base {labels[0]}, head {labels[1]}", style="bold")
    old = {case.id: case for case in base.cases}
    for title, cases in groups(head.cases):
        yield Text(f"\n{title}", style="bold")
        yield from _unchanged(cases)
        for case in cases:
            before = old.get(case.id)
            if before is not None and before.program and case.program and not _is_same(case):
                yield from _changed(before, case)
    yield Text("~: an estimate from the program and the chip's published peaks. Nothing was run.", style="dim")
    yield from (finding_line(finding) for finding in head.findings)
    yield from problems(head)


def _unchanged(cases: Sequence[AotCase]) -> Iterator[Text]:
    same = [case.target.name for case in cases if _is_same(case)]
    if same:
        yield Text(f"  {', '.join(same)}: the same program")
    for case in cases:
        program = next((one for one in case.verdicts if one.gate == PROGRAM), None)
        if program is not None and program.data.get("new"):
            yield Text(f"  {case.target.name}: new in head")


def _is_same(case: AotCase) -> bool:
    return any(verdict.gate == PROGRAM and verdict.data.get("same") is True for verdict in case.verdicts)


def _changed(base: AotCase, head: AotCase) -> Iterator[RenderableType]:
    yield Text(f"  {head.target.name}: another program")
    yield _table(base, head)
    assert base.program is not None
    assert head.program is not None
    changes = explain(base.program, head.program)
    yield from (Text(f"  {change.message}") for change in changes[:_MOST_OPERATIONS])
    if len(changes) > _MOST_OPERATIONS:
        yield Text(f"  and {len(changes) - _MOST_OPERATIONS} smaller changes, in the records")


def _table(base: AotCase, head: AotCase) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("  fact", overflow="fold")
    for name in ("base", "head", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    verdicts = {verdict.gate: verdict for verdict in head.verdicts}
    for fact in _shown(base, head):
        table.add_row(*_row(fact, base, head, verdicts))
    return table


def _shown(base: AotCase, head: AotCase) -> Iterable[Fact]:
    directed = (fact for fact in FACTS.values() if fact.direction is not Direction.NONE and not fact.timed)
    return [fact for fact in directed if fact.name in _ALWAYS or fact.value(base) != fact.value(head)]


def _row(fact: Fact, base: AotCase, head: AotCase, verdicts: Mapping[str, Verdict]) -> Iterator[str | Text]:
    old, new = fact.value(base), fact.value(head)
    mark = "~" if fact.estimate else ""
    yield f"  {mark}{fact.name}"
    yield from (units.quantity(value, fact.unit) for value in (old, new))
    if old is None or new is None:
        yield "-"
    else:
        yield "=" if new == old else f"{new / old - 1:+.1%}" if old else f"+{units.quantity(new, fact.unit)}"
    verdict = verdicts.get(fact.name)
    if verdict is None or verdict.outcome is Outcome.PASS:
        yield ""
    else:
        yield Text("FAIL" if verdict.outcome is Outcome.FAIL else verdict.outcome.value, style=STYLES[verdict.outcome])
