"""Compiled programs as people read them in a terminal: a table a program with a row a target, and what to look at.

Pure: the record in, rich renderables out. Reads at 80 columns and without colour. Whatever is an *estimate*
has a ``~``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.gate.aot_facts import FACTS
from qwenperf.gate.aot_words import program_name
from qwenperf.gate.verdict import NOT_JUDGED, skip_reason, worst
from qwenperf.report.aot_batches import batches_report
from qwenperf.report.aot_problems import problems
from qwenperf.report.aot_remarks import remarks
from qwenperf.report.styles import STYLES
from qwenperf.report.terminal import finding_line
from qwenperf.schema.analysis import AotCase, AotRecord, Estimate, OperationCost
from qwenperf.schema.records import Finding, Outcome, Status

LEGEND = (
    "peak, temp: bytes on one device; HBM: the peak's share of it. moved: bytes read and written in one call.\n"
    "~: an estimate from the program and the chip's published peaks. Nothing was run."
)


def aot_report(
    record: AotRecord, place: str = "", operations: int = 0, *, batches: bool = False
) -> Iterator[RenderableType]:
    """Yield the whole report: targets, tables, what each program does, remarks, what failed, where the record is.

    With ``operations`` that many of the costliest ones of each program follow the tables, with ``batches`` its
    estimates over the batch.
    """
    yield from (Text(target_line(case)) for case in _one_a_target(record.cases))
    for title, cases in groups(record.cases):
        yield Text(f"\n{title}", style="bold")
        yield aot_table(cases)
        yield from map(Text, remarks(cases))
    for case in record.cases if operations else ():
        yield from operations_report(case, operations)
    for case in record.cases if batches else ():
        yield from batches_report(case)
    yield Text(LEGEND, style="dim")
    yield from (finding_line(one) for one in _findings(record))
    yield from problems(record)
    if place:
        yield Text(f"record: {place}", no_wrap=True)


def groups(cases: Iterable[AotCase]) -> list[tuple[str, list[AotCase]]]:
    """Group what can stand in one table: the same program of the same case on every target."""
    found: dict[str, list[AotCase]] = {}
    for case in cases:
        of, program = case.id.rpartition("@")[0] or case.id, program_name(case)
        # A function of somebody's own is its own only program.
        found.setdefault(program if of == program else f"{of}: {program}", []).append(case)
    return list(found.items())


def target_line(case: AotCase) -> str:
    """Say what a target is: chips, devices, memory and bandwidth of one device, and the mesh."""
    target = case.target
    memory = f" of {units.byte_count(target.hbm_bytes)}" if target.hbm_bytes else ""
    speed = f" at {units.byte_count(target.hbm_bytes_per_s)}/s" if target.hbm_bytes_per_s else ""
    counts = [
        f"{count} {noun}{'s' * (count != 1)}" for count, noun in ((target.chips, "chip"), (target.devices, "device"))
    ]
    parts = [", ".join(counts) + memory + speed]
    if target.mesh:
        parts.append("mesh " + " x ".join(f"{axis} {size}" for axis, size in target.mesh.items()))
    if target.devices > 1 and not target.interconnect_bytes_per_s:
        parts.append("speed of the links unknown")
    name = target.name if target.topology in {"", target.name} else f"{target.name} ({target.topology})"
    return f"{name}: {', '.join(parts)}"


def aot_table(cases: Sequence[AotCase]) -> Table:
    """Return one table with a row a target; collectives have a column where there is more than one device."""
    several = any(case.target.devices > 1 for case in cases)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("target", no_wrap=True)
    for name in ("peak", "HBM", "temp", "moved", "copied", *(["coll"] if several else []), "~tok/s", "~bound"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for case in cases:
        table.add_row(case.target.name, *_numbers(case, several=several), verdict_word(case))
    return table


def _numbers(case: AotCase, *, several: bool) -> Iterator[str]:
    yield _size(case, "peak_bytes")
    share = None if case.fit is None else case.fit.peak_bytes / case.fit.hbm_bytes
    yield "-" if share is None else f"{100 * share:.{0 if share >= 0.1 else 1}f}%"
    yield from (_size(case, name) for name in ("temp_bytes", "hbm_bytes", "copied_bytes"))
    if several:
        count = FACTS["collectives"].value(case)
        yield "-" if count is None else f"{count:.0f}"
    yield from _estimated(case.estimate)


def _estimated(estimate: Estimate | None) -> Iterator[str]:
    speed = None if estimate is None else estimate.tokens_per_s
    yield "-" if speed is None else f"~{units.significant(speed)}"
    if estimate is None or not estimate.bound:
        yield "-"
        return
    share = estimate.mfu if estimate.bound == "compute" else estimate.mbu if estimate.bound == "memory" else None
    yield estimate.bound if share is None else f"{estimate.bound} {share:.0%}"


def _size(case: AotCase, name: str) -> str:
    return units.quantity(FACTS[name].value(case), FACTS[name].unit)


def verdict_word(case: AotCase) -> Text:
    """Return the worst outcome as a word, or how compiling ended."""
    outcome = worst(verdict.outcome for verdict in case.verdicts)
    if outcome is Outcome.FAIL:
        return Text("FAIL", style=STYLES[outcome])
    if case.status is not Status.MEASURED:
        return Text(case.status.value.replace("_", " "), style="bold red")
    if any(skip_reason(verdict) == NOT_JUDGED for verdict in case.verdicts):
        return Text(NOT_JUDGED, style="bold red")
    return Text("-") if outcome is None else Text(outcome.value, style=STYLES[outcome])


def operations_report(case: AotCase, most: int = 10) -> Iterator[RenderableType]:
    """Yield the costliest operations of one program with the lines of source that they come from."""
    if case.program is None:
        return
    yield Text(f"\n{case.id}", style="bold")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for name in ("moved", "Gflop", "~time", "runs"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("what", "shape", "from"):
        table.add_column(name, overflow="fold")
    for one in sorted(case.program.operations, key=_cost)[:most]:
        seconds = "-" if one.seconds is None else units.seconds(one.seconds)
        source = PurePath(one.source).name if one.source else one.op_name.rpartition("/")[2]
        cells = (units.byte_count(one.bytes), units.significant(one.flops / 1e9), seconds, str(one.runs))
        table.add_row(*cells, one.category, one.shape, source)
    yield table


def _cost(one: OperationCost) -> tuple[float, float]:
    return -(one.seconds or 0.0), -one.bytes


def _one_a_target(cases: Iterable[AotCase]) -> list[AotCase]:
    return list({case.target.name: case for case in cases}.values())


def _findings(record: AotRecord) -> list[Finding]:
    every = [*record.findings, *(finding for case in record.cases for finding in case.findings)]
    return list({(finding.code, finding.message): finding for finding in every}.values())
