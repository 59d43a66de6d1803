"""What gates could not judge of somebody's own engine, with what each of them lacks. Pure: records in, rich out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from qwenperf.gate.throughput import GATE as THROUGHPUT
from qwenperf.gate.verdict import skip_reason
from qwenperf.report.styles import STYLES
from qwenperf.schema.records import Outcome, RunRecord, Status
from qwenperf.workloads.factory import is_factory


def unjudged(run: RunRecord) -> Iterator[Text]:
    """Yield what gates had nothing to judge somebody's own engine by: a pass says nothing of those."""
    for case in run.cases:
        if case.status is not Status.MEASURED or not is_factory(str(case.spec.get("engine", ""))):
            continue
        for verdict in case.verdicts:
            # Throughput is judged where a budget is declared: without one nothing is missing.
            if verdict.outcome is Outcome.SKIPPED and verdict.gate != THROUGHPUT and not skip_reason(verdict):
                told = f"not judged: {case.id}: {verdict.gate}: {verdict.summary}. {verdict.advice}".rstrip()
                yield Text(told, style=STYLES[Outcome.SKIPPED])
