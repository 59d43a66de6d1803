"""What needs attention in a record of compiled programs: refusals, failed gates, what was not judged or is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from qwenperf.gate.verdict import NOT_JUDGED, skip_reason
from qwenperf.report.styles import STYLES
from qwenperf.schema.analysis import AotRecord
from qwenperf.schema.records import Outcome, Verdict


def problems(record: AotRecord) -> Iterator[Text]:
    """Yield what needs attention: refusals, failed gates, budgets that were not judged, programs that are missing."""
    for case in record.cases:
        told = [verdict for verdict in case.verdicts if verdict.outcome in {Outcome.FAIL, Outcome.IMPROVED}]
        yield from map(verdict_text, without_repeats(told))
        skips = [one for one in case.verdicts if one.outcome is Outcome.SKIPPED and skip_reason(one) == NOT_JUDGED]
        yield from map(verdict_text, skips)
        if case.error and not told and not skips:
            yield Text(f"{case.status.value.replace('_', ' ')}: {case.id}: {case.error}", style="red")
    there = {case.id for case in record.cases}
    yield from (Text(f"missing: {name}: asked for and not compiled.", style="red") for name in record.declared
                if name not in there)  # fmt: skip
    if record.interrupted:
        yield Text("interrupted: what is above was compiled before.", style="yellow")


def without_repeats(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts, those that have the cause of an earlier one as a line below it.

    One copy of a weight makes temporary memory, peak memory, traffic and copies worse: that is one thing to mend.
    """
    first: dict[tuple[Outcome, str], int] = {}
    kept: list[tuple[Verdict, list[str]]] = []
    for verdict in verdicts:
        listed = verdict.data.get("causes")
        cause = str(listed[0]) if isinstance(listed, list) and listed else ""
        key = (verdict.outcome, cause)
        if cause and key in first:
            kept[first[key]][1].append(f"for the same reason: {_without_cause(verdict.summary, cause)}")
            continue
        if cause:
            first[key] = len(kept)
        kept.append((verdict, []))
    return [_with_lines(verdict, lines) for verdict, lines in kept]


def _with_lines(verdict: Verdict, lines: Sequence[str]) -> Verdict:
    return replace(verdict, detail=(*verdict.detail, *lines)) if lines else verdict


def _without_cause(summary: str, cause: str) -> str:
    return summary.removesuffix(cause).rstrip(": ").removesuffix("gone").rstrip(": ")


def verdict_text(verdict: Verdict) -> Text:
    """Write one verdict: its line, the lines below it, and what to do."""
    word = "FAIL" if verdict.outcome is Outcome.FAIL else verdict.outcome.value
    lines = [f"{word}: {verdict.summary}", *(f"    {line}" for line in verdict.detail)]
    if verdict.advice and verdict.outcome is not Outcome.IMPROVED:
        lines.append(f"    {verdict.advice}")
    text = Text("\n".join(lines))
    text.stylize(STYLES[verdict.outcome], 0, len(word))
    return text
