"""The traces of a comparison: of a case one of either side, with the times that its pairs measured.

The record tells of them, so that it goes on to when the traces themselves were removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from qwenperf.cli.explain import read_comparison
from qwenperf.cli.files import is_there
from qwenperf.cli.traced_case import TracedCase, known_summary
from qwenperf.errors import NothingMeasuredError, RecordError
from qwenperf.gate.speed import token_times
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.traces.diff import REQUESTS, of

RECORD = "comparison.json"
_SIDES = ("base", "head")
_NOTE = "what was timed without the profiler are whole requests, prefill included, and the traces show steady steps"


def traced_sides(place: Path) -> tuple[Mapping[str, TracedCase], ...]:
    """Return base and head, by name, of each case that the comparison at ``place`` traced, or the one that has a trace.

    Empty where it is no comparison, or where its record tells of no trace and there may be some all the same.

    Raises:
      NothingMeasuredError: the comparison has no trace; says why.
    """
    folder = place.parent if place.name == RECORD else place
    if not is_there(folder / RECORD):
        return ()
    try:
        record = read_comparison(folder)
    except RecordError:
        return ()
    found = tuple(filter(None, (dict(_sides(case, record, folder)) for case in record.cases)))
    if not found and next(folder.rglob("*.xplane.pb"), None) is None:
        raise NothingMeasuredError(f"{folder} has no trace: {_why(record)}.", advice="Trace two runs instead.")
    return found


def _sides(case: ComparedCase, record: ComparisonRecord, folder: Path) -> Iterator[tuple[str, TracedCase]]:
    summaries, files = (_told(case, name) for name in ("trace_summaries", "traces"))
    times = token_times(record.pairs, case)
    for side in _SIDES:
        told, file = summaries.get(side), files.get(side)
        told = told if isinstance(told, Mapping) else None
        summary, note = known_summary(told, folder / file if isinstance(file, str) else None, case.spec)
        if summary is not None:
            note = "; ".join(filter(None, (note, _NOTE if times and of(summary) != REQUESTS else "")))
            yield side, TracedCase(id=case.id, summary=summary, timed_s=times.get(side), timed=REQUESTS, note=note)


def _told(case: ComparedCase, name: str) -> Mapping[str, object]:
    found = case.extra.get(name)
    return found if isinstance(found, Mapping) else {}


def _why(record: ComparisonRecord) -> str:
    """Say why nothing was traced."""
    for case in record.cases:
        for side, remarks in _told(case, "trace_remarks").items():
            if isinstance(remarks, list | tuple) and remarks:
                return f"{side}: {str(remarks[0]).rstrip('.')}"
    return "only a case that would fail is traced, when that is confirmed"
