"""A bisection as people read it in a terminal. Pure: the record in, rich renderables out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.schema.bisection import AnswerRecord, BisectionRecord, CommitRecord
from qwenperf.schema.metrics import Kind, lookup

_STYLES = {"bad": "red", "good": "green", "skip": "yellow", "unclear": "yellow"}
_SHOWN = 12
"""Suspects that are listed; a longer range is named by its ends."""


def bisection_report(record: BisectionRecord, file: str) -> Iterator[RenderableType]:
    """Yield the whole report: what was searched, a row a question, what was found, the file."""
    good, bad = _called(record.good, record.good_name), _called(record.bad, record.bad_name)
    yield Text(f"{record.metric} of {record.case}", style="bold")
    count = f"{len(record.commits)} commit{'s' * (len(record.commits) != 1)}"
    yield Text(f"good {good}, bad {bad}: {count}, {len(record.answers)} comparisons")
    if record.answers:
        yield _table(record)
    yield Text()
    yield from _found(record)
    yield Text(f"record: {file}", no_wrap=True)


def _table(record: BisectionRecord) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("commit", "against", "answer", "change", "interval", "pairs", "subject"):
        table.add_column(name, no_wrap=name != "subject", overflow="fold")
    known = _commits(record)
    for one in record.answers:
        interval = "-" if one.low is None or one.high is None else f"{one.low:+.1%} to {one.high:+.1%}"
        answer = Text(one.answer, style=_STYLES.get(one.answer, ""))
        told = known[one.head].subject if one.head in known else ""
        row = (one.head[:10], one.base[:10], answer, change_of(one, record.metric), interval)
        table.add_row(*row, "-" if one.pairs is None else str(one.pairs), told)
    return table


def change_of(answer: AnswerRecord, metric: str) -> str:
    """Return how much the metric differs: its value where it repeats exactly, in per cent otherwise."""
    if answer.head_value is not None:
        return units.quantity(answer.head_value, lookup(metric).unit)
    return "-" if answer.change is None else f"{answer.change:+.1%}"


def _found(record: BisectionRecord) -> Iterator[Text]:
    if record.interrupted:
        yield Text("interrupted: the same command goes on from here.", style="yellow")
    elif record.end == "culprit":
        yield from _culprit(record)
    elif record.end == "range":
        yield from _range(record)
    elif record.end:
        yield from _no_search(record)


def _culprit(record: BisectionRecord) -> Iterator[Text]:
    commit = _commits(record)[record.suspects[0]]
    yield Text(f"{commit.sha} is the commit that changed {record.metric}", style="bold")
    yield Text(f"  {commit.subject}")
    yield Text(f"  {', '.join(filter(None, (commit.author, commit.date)))}")
    step = step_of(record)
    if step is None:
        return
    yield Text(f"  {size_line(step, record.metric)}")
    lines = step.lines or record.extra.get("lines") or ()
    if lines:
        turned = step.lines and step.extra.get("turned")
        yield Text("  what the older commit spends more time in:" if turned else "  what takes longer:")
        yield from (Text(f"    {line}") for line in lines)


def step_of(record: BisectionRecord) -> AnswerRecord | None:
    """Return the answer that tells most of the culprit: against its parent where that was asked, else the latest."""
    if record.end != "culprit":
        return None
    parent = record.extra.get("parent")
    told = [one for one in record.answers if one.head == record.suspects[0] and one.answer == "bad"]
    return next((one for one in reversed(told) if one.base == parent), told[-1] if told else None)


def size_line(answer: AnswerRecord, metric: str) -> str:
    """Return the size of what a commit did, with its interval and what it was compared with."""
    if answer.base_value is not None and answer.head_value is not None:
        unit = lookup(metric).unit
        old, new = (units.quantity(value, unit) for value in (answer.base_value, answer.head_value))
        return f"{metric} {old} -> {new}, against {answer.base[:10]}"
    if answer.change is None:
        return f"{metric} changed, against {answer.base[:10]}"
    interval = "" if answer.low is None or answer.high is None else f" ({answer.low:+.1%} to {answer.high:+.1%})"
    return f"{metric} {answer.change:+.1%}{interval} over {answer.pairs} pairs, against {answer.base[:10]}"


def _range(record: BisectionRecord) -> Iterator[Text]:
    known = _commits(record)
    first, last = (known[record.suspects[index]].sha[:10] for index in (0, -1))
    count = len(record.suspects)
    told = f"it is one of {count} commits from {first} to {last}, which cannot be told apart:"
    yield Text(told if count > 1 else f"it may be {first}, which did not show it again:", style="yellow")
    why = _reasons(record)
    for sha in record.suspects[:_SHOWN]:
        told = f": {why[sha]}" if sha in why else ""
        yield Text(f"  {sha[:10]} {known[sha].subject}{told}")
    if len(record.suspects) > _SHOWN:
        yield Text(f"  and {len(record.suspects) - _SHOWN} more, in the record")


def _reasons(record: BisectionRecord) -> Mapping[str, str]:
    """Return why a suspect gave no answer, by commit."""
    words = {"skip": "not measured", "unclear": "noise hides it"}
    return {
        one.head: f"{words[one.answer]}{f' ({one.why})' if one.why else ''}"
        for one in record.answers
        if one.answer in words and one.kind == "commit"
    }


def _no_search(record: BisectionRecord) -> Iterator[Text]:
    last = record.answers[-1]
    if record.end == "same":
        told = "is the same" if lookup(record.metric).kind is Kind.DETERMINISTIC else "does not differ by the margin"
        seen = f" ({last.why})" if last.why else ""
        yield Text(f"{record.metric} {told} in good and bad: there is nothing to search for{seen}", style="yellow")
    elif record.end == "unclear":
        yield Text(f"whether good and bad differ cannot be told: {last.why or 'noise hides it'}", style="yellow")
    else:
        yield Text(f"good and bad cannot be compared: {last.why}", style="yellow")


def _commits(record: BisectionRecord) -> dict[str, CommitRecord]:
    ends = () if record.good_commit is None else (record.good_commit,)
    return {one.sha: one for one in (*ends, *record.commits)}


def _called(sha: str, name: str) -> str:
    return sha[:10] if not name or sha.startswith(name) else f"{name} ({sha[:10]})"
