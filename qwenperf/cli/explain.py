"""``qwenperf explain COMPARISON``: the verdicts of a comparison in whole sentences, and its pairs as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from qwenperf.cli.files import is_there, named_path, read_text, reason
from qwenperf.cli.output import debug_option, json_option, write_json, write_lines
from qwenperf.errors import NothingMeasuredError, OutputError, RecordError, UnknownNameError
from qwenperf.gate.speed import GATE as SPEED
from qwenperf.gate.speed import pair_estimates
from qwenperf.lab.run_folder import session_name
from qwenperf.report.explained import explain
from qwenperf.report.pairs_svg import pairs_svg
from qwenperf.report.series_scale import printable
from qwenperf.schema.codec import comparison_loads
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import Outcome


@click.command("explain")
@click.argument("comparison", type=named_path)
@click.option("--case", "case_id", help="Only this case.")
@click.option("--gate", help="Only this gate (default: what did not pass, then speed).")
@click.option("--svg", type=named_path, metavar="DIR", help="Write a picture of each case's pairs into this folder.")
@json_option
@debug_option
def command(comparison: Path, as_json: bool, **flags: Any) -> int:  # noqa: FBT001
    """Explain the verdicts of a saved COMPARISON (its folder or its comparison.json)."""
    record = read_comparison(comparison)
    chosen = _chosen(record, flags["case_id"])
    try:
        told = {case.id: list(_told(record, case, flags["gate"])) for case in chosen}
        files = [] if flags["svg"] is None else [str(_draw(record, case, flags["svg"])) for case in chosen]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise RecordError(f"{comparison}: a verdict's data are not what this version writes: {error}.") from error
    if as_json:
        write_json({"verdicts": told, "svg": files})
    else:
        write_lines(printable(line) for lines in told.values() for line in (*lines, ""))
        write_lines(files)
    return 0


def read_comparison(place: Path) -> ComparisonRecord:
    """Return the comparison at ``place``.

    Raises:
      RecordError: nothing there, or no comparison; names the file.
    """
    file = place / "comparison.json" if is_there(place) and place.is_dir() else place
    try:
        return comparison_loads(read_text(file), str(file))
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read {file}: {reason(error)}.", advice="Give a comparison's folder.") from error


def _chosen(record: ComparisonRecord, case_id: str | None) -> tuple[ComparedCase, ...]:
    if case_id is None:
        if not record.cases:
            raise NothingMeasuredError("the comparison has no case.")
        return record.cases
    found = tuple(case for case in record.cases if case.id == case_id)
    if not found:
        raise UnknownNameError("case", case_id, [case.id for case in record.cases])
    return found


def _told(record: ComparisonRecord, case: ComparedCase, gate: str | None) -> Iterator[str]:
    """Yield sentences on what did not pass, the failures first, and on speed; or on the gate that was asked for."""
    by_gate = {verdict.gate: verdict for verdict in case.verdicts}
    if gate is not None:
        # A gate with a verdict for each metric, `sizes:temp_bytes`, is asked for as a whole too.
        chosen = [name for name in by_gate if name == gate or name.startswith(f"{gate}:")]
        if not chosen:
            raise UnknownNameError("gate", gate, by_gate)
    else:
        failed = [name for name, verdict in by_gate.items() if verdict.outcome is Outcome.FAIL]
        chosen = list(dict.fromkeys((*failed, *(name for name in (SPEED,) if name in by_gate))))
    for name in chosen:
        yield from explain(record, case, by_gate[name])
        if len(chosen) > 1 or gate is None:
            yield ""


def _draw(record: ComparisonRecord, case: ComparedCase, folder: Path) -> Path:
    values = [one.wall for one in pair_estimates(record.pairs, case.id, 1)]
    speed = next((verdict for verdict in case.verdicts if verdict.gate == SPEED), None)
    seen = {} if speed is None else speed.data.get("stage_1", {})
    margin = float(record.plan.get("margins", {}).get(case.id, record.plan.get("margin", 0.03)))
    file = folder / f"{session_name(case.id)}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = pairs_svg(case.id, values, margin=margin, low=seen.get("low"), high=seen.get("high"))
        file.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror or error}.") from error
    return file
