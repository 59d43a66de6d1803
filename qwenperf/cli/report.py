"""``qwenperf report PATH``: a saved run or comparison as one page of HTML, made again from its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.explain import read_comparison
from qwenperf.cli.files import is_there, named_path, read_text
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.cli.trace_comparison import RECORD as COMPARISON
from qwenperf.cli.traced_case import known_summary
from qwenperf.errors import RecordError, UsageError
from qwenperf.schema.comparison import COMPARISON_SCHEMA, ComparedCase, ComparisonRecord
from qwenperf.schema.records import CaseRecord, RunRecord


@click.command("report")
@click.argument("path", type=named_path)
@click.option("--out", type=named_path, metavar="PATH", help="File, or folder, for the page (default: beside PATH).")
@json_option
@debug_option
def command(path: Path, *, out: Path | None, as_json: bool, debug: bool) -> int:  # noqa: ARG001
    """Write the page of a saved run or comparison (its folder or its record), and say where.

    One file of HTML that needs no network, no script and no other file: what failed and by how much, all tables, where
    a token's time goes, pairs and steps as pictures.
    """
    from qwenperf.cli.report_file import page
    from qwenperf.lab.run_folder import write_text
    from qwenperf.report.html import NAME
    from qwenperf.report.html_headline import comparison_headline, run_headline

    record, file = read_record(path)
    place = file.with_name(NAME) if out is None else out / NAME if is_there(out) and out.is_dir() else out
    if place.absolute() == file.absolute():
        raise UsageError(f"--out {place} is the record itself.", advice="Name another file.")
    try:
        text = page(record, file, place)
        headline = run_headline(record) if isinstance(record, RunRecord) else comparison_headline(record)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise RecordError(f"{file}: it holds what this version does not write: {error}.") from error
    write_text(place, text)
    if as_json:
        kind = "run" if isinstance(record, RunRecord) else "comparison"
        said = {"report": str(place), "kind": kind, "id": record.id, "bytes": len(text.encode())}
        write_json({**said, "verdict": headline.sign.word, "headline": headline.sentence})
    else:
        write_lines([str(place)])
    return 0


def read_record(path: Path) -> tuple[RunRecord | ComparisonRecord, Path]:
    """Return the run or the comparison at ``path``, and the file that it was read from.

    Summaries of traces that an older version wrote are made again where their traces are still there.

    Raises:
      RecordError: nothing there, or no such record; names the file.
    """
    file = path / COMPARISON if is_there(path / COMPARISON) else path
    if _is_comparison(file):
        comparison = read_comparison(file)
        cases = tuple(_compared(case, file.parent) for case in comparison.cases)
        return replace(comparison, cases=cases), file
    if is_there(path / "aot.json") and not is_there(path / RECORD):
        advice = "Give the folder of a run or of a comparison."
        raise RecordError(f"{path} holds compiled programs, which have no page.", advice=advice)
    run, file = read_run(path)
    return replace(run, cases=tuple(_traced(case, file.parent) for case in run.cases)), file


def _is_comparison(file: Path) -> bool:
    """Say whether a file is a comparison's record, by its name or by what it says of itself."""
    if file.name in {COMPARISON, RECORD} or not is_there(file) or file.is_dir():
        return file.name == COMPARISON
    try:
        data = json.loads(read_text(file))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, Mapping) and data.get("schema") == COMPARISON_SCHEMA


def _traced(case: CaseRecord, folder: Path) -> CaseRecord:
    summary, _ = known_summary(case.evidence.trace_summary, folder / case.trace if case.trace else None, case.spec)
    return replace(case, evidence=replace(case.evidence, trace_summary=summary))


def _compared(case: ComparedCase, folder: Path) -> ComparedCase:
    summaries, files = (_told(case.extra.get(name)) for name in ("trace_summaries", "traces"))
    found = {side: _summary(summaries.get(side), files.get(side), case, folder) for side in (*summaries, *files)}
    known = {side: summary for side, summary in found.items() if summary is not None}
    return replace(case, extra={**case.extra, "trace_summaries": known}) if known else case


def _summary(summary: Any, file: Any, case: ComparedCase, folder: Path) -> Mapping[str, Any] | None:
    told = summary if isinstance(summary, Mapping) else None
    return known_summary(told, folder / file if isinstance(file, str) else None, case.spec)[0]


def _told(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
