"""An upgrade as people read it in a terminal: a table a case, a column a version. Pure: the record in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.gate.excuses import is_excused
from qwenperf.report.html_signs import FAIL, UNKNOWN, of_compared
from qwenperf.report.styles import KINDS, STYLES
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.schema.upgrade import UpgradeRecord, VersionCase, VersionRecord

SHOWN = (
    "compile_s", "cold_request_s", "decode_tokens_per_s", "request_tokens_per_s", "ttft_s", "peak_rss_bytes",
    "peak_bytes", "temp_bytes", "compiles_cold", "compiles_steady", "tokens_equal",
)  # fmt: skip
"""Metrics that a table shows, where a version has them; the record has all."""

_TOLD = {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.IMPROVED}
_MOST_PROBLEMS = 24


def upgrade_report(record: UpgradeRecord, file: str) -> Iterator[RenderableType]:
    """Yield the whole report: versions, a table a case, programs for other chips, what needs attention, the file."""
    yield Text(
        f"{len(record.versions)} versions, compared with {record.base or 'none: no version works'}", style="bold"
    )
    for version in record.versions:
        yield _where(version)
    measured = [version for version in record.versions if version.cases]
    for name in dict.fromkeys(name for version in measured for name in version.cases):
        yield Text(f"\n{name}", style="bold")
        yield _table(name, measured)
    if any(version.programs for version in measured):
        yield Text()
        yield from (_compiled(version) for version in measured if version.programs)
    problems = [line for version in record.versions for line in _problems(version)]
    if problems:
        yield Text()
        yield from problems[:_MOST_PROBLEMS]
    if len(problems) > _MOST_PROBLEMS:
        yield Text(f"and {len(problems) - _MOST_PROBLEMS} more, in the record")
    if record.interrupted:
        yield Text("interrupted: what was measured before is kept.", style="yellow")
    yield Text(f"record: {file}", no_wrap=True)


def _where(version: VersionRecord) -> Text:
    parts = [version.label]
    if version.python:
        parts.append(f"Python {version.python} of {version.interpreter}")
    libtpu = version.environment.get("libtpu")
    if libtpu:
        parts.append(f"libtpu {libtpu}")
    text = Text(f"  {', '.join(parts)}")
    return text if version.error is None else text.append(f": {version.error}", style="red")


def _table(name: str, versions: Sequence[VersionRecord]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for version in versions:
        table.add_column(version.label, justify="right", no_wrap=True)
    cases = [version.cases.get(name) for version in versions]
    for metric in SHOWN:
        if any(case is not None and metric in case.metrics for case in cases):
            table.add_row(metric, *(_value(metric, case, cases[0]) for case in cases))
    table.add_row("request time", *(_time(case) for case in cases))
    table.add_row("tokens", *(_word(case, "tokens", "same", "other") for case in cases))
    table.add_row("programs", *(_programs(case) for case in cases))
    table.add_row("verdict", *(_outcome(case, first=index == 0) for index, case in enumerate(cases)))
    return table


def _value(metric: str, case: VersionCase | None, first: VersionCase | None) -> str:
    if case is None or metric not in case.metrics:
        return "-"
    one = case.metrics[metric]
    text = units.quantity(one.value, one.unit)
    old = None if first is None or first is case else first.metrics.get(metric)
    if old is None or not old.value or old.value == one.value:
        return text
    return f"{text} ({one.value / old.value - 1:+.1%})"


def _time(case: VersionCase | None) -> str:
    speed = _gate(case, "speed")
    if speed is None:
        return "-"
    seen = speed.data.get("stage_1") or {}
    if seen.get("estimate") is None:
        return "not measured"
    low, high = seen.get("low"), seen.get("high")
    interval = "" if low is None or high is None else f" ({low:+.1%} to {high:+.1%})"
    return f"{seen['estimate']:+.1%}{interval}"


def _word(case: VersionCase | None, gate: str, same: str, other: str) -> str:
    one = _gate(case, gate)
    if one is None:
        return "-"
    return {Outcome.PASS: same, Outcome.FAIL: other}.get(one.outcome, one.outcome.value)


def _programs(case: VersionCase | None) -> str:
    one = _gate(case, "programs")
    same = None if one is None else one.data.get("same")
    return "-" if same is None else "same" if same else "other"


def _outcome(case: VersionCase | None, *, first: bool) -> Text:
    if case is None:
        return Text("missing", style="red")
    sign = of_compared(case)
    if case.error and sign != FAIL:
        return Text("not measured", style="red")
    return Text("base" if first and sign == UNKNOWN else sign.word, style=KINDS[sign.kind])


def _compiled(version: VersionRecord) -> Text:
    """Say how many programs for other chips are other ones, and how many are worse."""
    verdicts = version.programs
    same = sum(
        any(one.gate == "program" and one.data.get("same") is True for one in each) for each in verdicts.values()
    )
    worse = sum(any(one.outcome is Outcome.FAIL for one in each) for each in verdicts.values())
    return Text(
        f"{version.label}: {same} of {len(verdicts)} programs compiled for other chips are the same, {worse} are worse"
    )


def _problems(version: VersionRecord) -> Iterator[Text]:
    for verdict in version.verdicts:
        yield _problem(version.label, "", verdict)
    for name, case in version.cases.items():
        if case.error:
            yield Text(f"{version.label}: {name}: {case.error}", style="red")
        for verdict in case.verdicts:
            if verdict.outcome in _TOLD or (
                verdict.outcome is Outcome.SKIPPED and verdict.gate in {"speed", "inventory"}
            ):
                yield _problem(version.label, name, verdict)
    for each in version.programs.values():
        for verdict in each:
            if verdict.outcome in _TOLD:
                yield _problem(version.label, "", verdict)


def _problem(label: str, case: str, verdict: Verdict) -> Text:
    word = "FAIL" if verdict.outcome is Outcome.FAIL else verdict.outcome.value
    excused = " (excused)" if is_excused(verdict) else ""
    head = f"{word}{excused}: {label}"
    told = [": ".join(filter(None, (head, case, verdict.gate, verdict.summary)))]
    told += [f"    {line}" for line in verdict.detail]
    text = Text("\n".join(told))
    text.stylize(STYLES[verdict.outcome], 0, len(word))
    return text


def _gate(case: VersionCase | None, gate: str) -> Verdict | None:
    return None if case is None else next((one for one in case.verdicts if one.gate == gate), None)
