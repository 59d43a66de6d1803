"""A run as people read it in a terminal: a table of rungs, what failed and why, and where the files are.

Pure: records in, rich renderables out. Reads at 80 columns and without colour; every sign is also a word.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.gate.verdict import NOT_JUDGED, skip_reason, worst
from qwenperf.report.cells import compiles, rung, tokens
from qwenperf.report.claims import claims_report
from qwenperf.report.extrapolated import LEGEND, is_extrapolated, marked
from qwenperf.report.ladder import ladder_report
from qwenperf.report.lost_weights import of_model
from qwenperf.report.measures import TITLE, is_plain, left_out, measures_table
from qwenperf.report.speedup import BASE_RUNG, speedup_lines, value
from qwenperf.report.styles import STYLES
from qwenperf.report.unjudged import unjudged
from qwenperf.schema.records import CaseRecord, Finding, Outcome, RunRecord, Severity, Status, Verdict
from qwenperf.workloads.ladder import PLATFORMS

_TEXT_LIMIT = 160


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the run's files are, as people would type it; ``""`` where there is none."""

    record: str
    traces: str = ""
    logdir: str = ""
    page: str = ""


def run_report(run: RunRecord, places: Places) -> Iterator[RenderableType]:
    """Yield the whole report of a run: tables, remarks, real text, what failed, speed-up, files."""
    for title, cases in groups(run.cases):
        yield Text(title, style="bold")
        if run.suite in PLATFORMS:
            yield from ladder_report(run.suite, cases)
        else:
            yield case_table(cases)
            yield from (Text(line, style="dim") for line in (legend(cases),) if line)
        yield Text()
    yield from claims_report(run)
    yield from _lines(dict.fromkeys(said(case) for case in run.cases))
    yield from _lines(finding_line(finding) for finding in all_findings(run))
    yield from problems(run)
    yield from unjudged(run)
    yield from _lines(speedup_lines(run))
    yield from place_lines(run, places)


def groups(cases: Iterable[CaseRecord]) -> list[tuple[str, list[CaseRecord]]]:
    """Group cases that can stand in one table: the same model and workload."""
    found: dict[str, list[CaseRecord]] = {}
    for case in cases:
        found.setdefault(group_title(case), []).append(case)
    return list(found.items())


def group_title(case: CaseRecord) -> str:
    """Say in words what all cases of a table share."""
    if is_plain(case):
        return TITLE
    work = case.spec.get("workload")
    if not isinstance(work, Mapping):
        return case.id
    words = "{model}, {dtype}, batch {batch}, prompt {prompt_length}, {new_tokens} new tokens"
    return words.format_map({**work, "model": of_model(str(case.spec.get("model", "?")), case.findings)})


def case_table(cases: Sequence[CaseRecord]) -> Table:
    """Return the table of cases of one title, a row a case: of engines, or of whatever was measured."""
    return measures_table(cases, verdict_word) if all(map(is_plain, cases)) else rung_table(cases)


def rung_table(cases: Sequence[CaseRecord]) -> Table:
    """Return one table with a row a rung; the speed-up column only where its base is there."""
    base = next((value(case, "decode_tokens_per_s") for case in cases if rung(case) == BASE_RUNG), None)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    # A long name of settings is folded: squeezed, the numbers beside it would say nothing.
    table.add_column("rung", overflow="fold")
    columns = ("tokens/s", *([f"x {BASE_RUNG}"] if base else []), "cold", "compiles", "tokens", "MBU")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for case in cases:
        table.add_row(*_row(case, base))
    return table


def _row(case: CaseRecord, base: float | None) -> Iterator[str | Text]:
    speed = value(case, "decode_tokens_per_s")
    yield rung(case)
    yield marked(_number(speed), case, "decode_tokens_per_s")
    if base:
        yield f"{units.significant(speed / base)}x" if speed is not None else "-"
    yield marked(_number(value(case, "cold_tokens_per_s")), case, "cold_tokens_per_s")
    yield marked(compiles(case), case, "compiles_cold")
    yield tokens(case)
    mbu = value(case, "mbu")
    yield "-" if mbu is None else f"{100 * mbu:.{0 if mbu >= 0.1 else 1}f}%"
    yield verdict_word(case)


def verdict_word(case: CaseRecord) -> Text:
    """Return the worst outcome of a case as a word, or how its measuring ended."""
    if case.status is not Status.MEASURED:
        return Text(case.status.value.replace("_", " "), style="bold red")
    outcome = worst(verdict.outcome for verdict in case.verdicts)
    if outcome is None:
        return Text("-")
    if outcome in {Outcome.PASS, Outcome.SKIPPED} and any(skip_reason(one) == NOT_JUDGED for one in case.verdicts):
        return Text(NOT_JUDGED, style="bold red")
    return Text("FAIL" if outcome is Outcome.FAIL else outcome.value, style=STYLES[outcome])


def legend(cases: Sequence[CaseRecord]) -> str:
    """Explain the columns under a table, with the roofline that MBU is a share of."""
    if all(map(is_plain, cases)):
        return left_out(cases)
    lines = ["tokens/s: steady decode. cold: the first request's, compiles counted.", "compiles: cold/steady."]
    rooflines = [case.evidence.roofline for case in cases if case.evidence.roofline]
    if any("approximate" in case.spec for case in cases):
        lines.append("off: an approximate engine's largest error of a logit, as a share of the largest logit.")
    if rooflines:
        speed = units.byte_count(rooflines[0].bytes_per_s)
        lines[-1] += f" MBU: share of {speed}/s, the memory roofline here."
    if any((value(case, "mbu") or 0) > 1 for case in cases):
        lines.append("MBU above 100%: the weights lie in the processor's caches.")
    if any(map(is_extrapolated, cases)):
        lines.append(LEGEND)
    return "\n".join(lines)


def said(case: CaseRecord) -> str:
    """Return one line of the text that a model with a tokenizer generated."""
    evidence = case.evidence.tokens
    if evidence is None or not evidence.text:
        return ""
    text = " ".join(evidence.text.split())
    text = text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}..."
    return f"{case.spec.get('model', case.id)} wrote: {text}"


def problems(run: RunRecord) -> Iterator[Text]:
    """Yield what needs attention: cases not measured, missing ones, verdicts that are not green, budgets not judged."""
    for case in run.cases:
        if case.error:
            yield Text(f"{case.status.value.replace('_', ' ')}: {case.id}: {case.error}", style="red")
        for verdict in case.verdicts:
            if verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.IMPROVED} or skip_reason(verdict):
                yield verdict_text(case, verdict)
    measured = {case.id for case in run.cases}
    for name in run.declared:
        if name not in measured:
            yield Text(f"missing: {name}: asked for and not measured.", style="red")
    if run.interrupted:
        yield Text("interrupted: what is above was measured before.", style="yellow")


def verdict_text(case: CaseRecord, verdict: Verdict) -> Text:
    """Write one verdict: its line, the lines below it, and what to do."""
    word = "FAIL" if verdict.outcome is Outcome.FAIL else verdict.outcome.value
    lines = [f"{word}: {case.id}: {verdict.gate}: {verdict.summary}", *(f"    {line}" for line in verdict.detail)]
    if verdict.advice and verdict.outcome is not Outcome.IMPROVED:
        lines.append(f"    {verdict.advice}")
    text = Text("\n".join(lines))
    text.stylize(STYLES[verdict.outcome], 0, len(word))
    return text


def all_findings(run: RunRecord) -> list[Finding]:
    """Return the findings of a run and its cases, each message once."""
    every = [*run.findings, *(finding for case in run.cases for finding in case.findings)]
    return list({(finding.code, finding.message): finding for finding in every}.values())


def finding_line(finding: Finding) -> Text:
    """Write a finding with its advice."""
    style = "" if finding.severity is Severity.NOTE else "yellow"
    line = f"{finding.severity.value}: {finding.message} {finding.advice}".rstrip()
    return Text(line, style=style)


def place_lines(run: RunRecord, places: Places) -> Iterator[Text]:
    """Say where record and traces are, and how to look at the traces."""
    yield Text(f"record: {places.record}", no_wrap=True)
    if places.page:
        yield Text(f"report: {places.page}", no_wrap=True)
    count = sum(case.trace is not None for case in run.cases)
    if places.traces and count:
        yield Text(f"traces: {places.traces} ({count}; tensorboard --logdir {places.logdir})", no_wrap=True)


def _lines(lines: Iterable[str | Text]) -> Iterator[Text]:
    return (line if isinstance(line, Text) else Text(line) for line in lines if line)


def _number(number: float | None) -> str:
    return "-" if number is None else units.significant(number)


def render(renderables: Iterable[RenderableType], *, width: int = 80, color: bool = False) -> str:
    """Return renderables as text, for a file, a log or a test."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, highlight=False, markup=False, emoji=False, force_terminal=color, no_color=not color
    )
    for renderable in renderables:
        # A path that is wrapped cannot be copied.
        console.print(renderable, soft_wrap=isinstance(renderable, Text) and bool(renderable.no_wrap))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
