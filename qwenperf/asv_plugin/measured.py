"""Measures cases for ASV: each once, in a process of its own, every number that is wanted from the same measurement."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from qwenperf.errors import MeasurementError, UnknownNameError
from qwenperf.schema.records import CaseRecord
from qwenperf.workloads.case import Case

ONLY = "QWENPERF_ASV_ONLY"
"""A variable that names the labels to measure, separated by commas; the others have no point in this run."""

NO_DECODE_TIME = "no-decode-time"
"""The code of the finding that noise, or a stream in pieces, left no time per token."""


def measure(cases: Mapping[str, Case]) -> dict[str, dict[str, float]]:
    """Measure ``cases`` and return metric values by label.

    Raises:
      MeasurementError: a case, or a window of it, gave no measurement; a history with silent gaps is worse than a
        failed run. See ``numbers``.
      UnknownNameError: the variable ``QWENPERF_ASV_ONLY`` names a label that is not there.
    """
    from qwenperf.lab.options import Options
    from qwenperf.lab.run_cases import new_run, run_cases
    from qwenperf.lab.run_folder import create_run_folder

    chosen = only(cases, os.environ.get(ONLY, ""))
    wanted = tuple(chosen.values())
    with tempfile.TemporaryDirectory(prefix="qwenperf-asv-") as folder:
        run_folder = create_run_folder(Path(folder), datetime.now(UTC))
        run = new_run(run_folder, "asv", wanted, {})
        run = run_cases(run, wanted, folder=run_folder, options=Options(roofline=False), listener=_Silent())
    values = numbers(run.cases)
    return {label: values[case.id] for label, case in chosen.items()}


def only(cases: Mapping[str, Case], names: str) -> Mapping[str, Case]:
    """Return the cases that ``names`` names, all where it names none.

    Raises:
      UnknownNameError: a name that is no label.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    for name in asked:
        if name not in cases:
            raise UnknownNameError(f"case in {ONLY}", name, cases)
    if not asked:
        return cases
    sys.stderr.write(f"qwenperf: {ONLY}: only {', '.join(asked)} measured; the rest has no point.\n")
    return {name: cases[name] for name in asked}


def numbers(records: Iterable[CaseRecord]) -> dict[str, dict[str, float]]:
    """Return metric values by case id; what has no point in this run is told on standard error.

    Raises:
      MeasurementError: a case was not measured, or one of its windows is void for another reason than compiles: those
        have a graph of their own, in which they are to be seen.
    """
    records = tuple(records)
    gaps = [f"{record.id}: {why}" for record in records for why in _gaps(record)]
    if gaps:
        raise MeasurementError("; ".join(gaps))
    for record in records:
        for why in (*record.evidence.voids, *(one.message for one in record.findings if one.code == NO_DECODE_TIME)):
            sys.stderr.write(f"qwenperf: {record.id}: some numbers have no point: {why}\n")
    return {record.id: {name: metric.value for name, metric in record.metrics.items()} for record in records}


def _gaps(record: CaseRecord) -> tuple[str, ...]:
    """Say why a record has not every number: a void window leaves its metrics out."""
    if record.status != "measured":
        return (str(record.error),)
    compiled = record.metrics.get("compiles_steady")
    if compiled is not None and compiled.value > 0:
        return ()
    return tuple(f"a void window: {void}" for void in record.evidence.voids)


class _Silent:
    """ASV shows its own progress."""

    def case_started(self, case: Case, number: int, total: int) -> None: ...

    def phase(self, case: Case, name: str) -> None: ...

    def case_ended(self, record: CaseRecord) -> None: ...
