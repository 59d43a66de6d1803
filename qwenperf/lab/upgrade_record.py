"""What an upgrade's record says of runs and ends with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from qwenperf.gate import verdict
from qwenperf.schema.records import Metric, RunRecord
from qwenperf.schema.upgrade import UpgradeRecord, VersionCase


def version_case(runs: Sequence[RunRecord], name: str) -> VersionCase:
    """Return the medians of a case's metrics over runs, and why there are none."""
    found = [case for run in runs for case in run.cases if case.id == name]
    readings: dict[str, list[Metric]] = {}
    for case in found:
        for metric, one in case.metrics.items():
            readings.setdefault(metric, []).append(one)
    metrics = {
        metric: replace(
            each[0], value=median(one.value for one in each), samples=tuple(one.value for one in each),
            interval=None, coverage=None,
        )
        for metric, each in readings.items()
    }  # fmt: skip
    programs = {one.name: one.fingerprint for case in found[-1:] for one in case.evidence.programs}
    errors = [case.error for case in found if case.error]
    return VersionCase(metrics=metrics, programs=programs, error=errors[-1] if errors else None)


def exit_code(record: UpgradeRecord) -> int:
    """Return what the command ends with: the code that wins of all versions; 5 also where fewer than two work."""
    codes = [one.exit_code for one in record.versions]
    codes += [verdict.NOT_MEASURED for one in record.versions if one.error]
    if record.interrupted:
        codes.append(verdict.INTERRUPTED)
    if not record.interrupted and sum(bool(one.cases) for one in record.versions) < 2:
        codes.append(verdict.NOT_MEASURED)
    return verdict.strongest(codes)
