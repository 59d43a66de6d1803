"""Records of cases that gave no measurement: what happened, in which phase, and the last words of the log."""

from __future__ import annotations

import re
import signal
from dataclasses import replace

from qwenperf.errors import ConfigError, EnvironmentUnfitError, QwenperfError, UsageError
from qwenperf.lab.executor import Ended, signal_name
from qwenperf.lab.jax_errors import mistake_in
from qwenperf.schema.records import CaseRecord, RunRecord, Status
from qwenperf.units import seconds
from qwenperf.workloads.case import Case
from qwenperf.workloads.flags import FLAG_SETS

_FATAL = re.compile(r"^F\d{4} [^\]]*\] (.+)$", re.MULTILINE)
"""A line of XLA's log after which its process ends."""


def refused(case: Case, error: QwenperfError) -> CaseRecord:
    """Record an error of our own tree: its message is all that there is to say."""
    extra = {"error_kind": type(error).__name__, "exit_code": error.exit_code}
    return CaseRecord(id=case.id, spec=case.to_json(), status=Status.FAILED, error=str(error), extra=extra)


def refusal(run: RunRecord) -> QwenperfError | None:
    """Return the error of a run whose cases were all refused before anything was measured; ``None`` of any other.

    Nothing of such a run is worth keeping: an engine or a file was named that is none. Each message is told once.
    """
    kinds = {kind.exit_code: kind for kind in (UsageError, EnvironmentUnfitError)}
    codes = [case.extra["exit_code"] for case in run.cases if case.extra.get("exit_code") in kinds]
    measured = run.interrupted or any(case.metrics for case in run.cases)
    if not codes or measured or len(codes) < len(run.cases):
        return None
    told = " ".join(dict.fromkeys(case.error for case in run.cases if case.error))
    return kinds[min(codes)](told)


def timed_out(case: Case, ended: Ended, phase: str, log: str) -> CaseRecord:
    """Record a case that was killed at its time limit."""
    limit = seconds(case.time_limit_s)
    error = (
        f"killed after its time limit of {limit}, in phase {phase!r}. A larger --time-limit lets it go on. Log: {log}"
    )
    return _record(case, Status.TIMED_OUT, error, ended.wall_s, phase)


def crashed(case: Case, ended: Ended, phase: str, last_words: str) -> CaseRecord:
    """Record a case whose process ended without a record; what its last words are known to mean is a finding."""
    if ended.returncode < 0:
        how = f"died of {signal_name(ended.returncode)}"
        if -ended.returncode == signal.SIGKILL:
            how += " (out of memory?)"
    else:
        how = f"ended with exit code {ended.returncode} and no record"
    said = f" Its last words: {last_words}" if last_words else ""
    record = _record(case, Status.FAILED, f"the process {how} in phase {phase!r}.{said}", ended.wall_s, phase)
    mistake = mistake_in(last_words)
    return record if mistake is None else replace(record, findings=(mistake,))


def unfit(case: Case, last_words: str, flags: str = "none") -> CaseRecord | None:
    """Record a case whose process JAX ended at its start for a setting; ``None`` where the log tells of no such end.

    ``flags`` is the case's set of XLA flags: one of those is the case's own mistake, any other the environment's.
    """
    fatal = _FATAL.search(last_words)
    if fatal is None:
        return None
    if any(flag in fatal[1].split() for flag in FLAG_SETS[flags].flags):
        error = ConfigError(f"engine setting xla_flags={flags!r}: JAX does not start: {fatal[1].rstrip('.')}.")
        return refused(case, error)
    return refused(case, EnvironmentUnfitError(f"JAX does not start: {fatal[1].rstrip('.')}."))


def interrupted(case: Case, phase: str) -> CaseRecord:
    """Record the case that was running when somebody pressed Ctrl-C."""
    return _record(case, Status.INTERRUPTED, f"interrupted in phase {phase!r}.", None, phase)


def with_kept(failure: CaseRecord, kept: CaseRecord | None) -> CaseRecord:
    """Return ``failure`` with what its process had measured and left before it ended."""
    if kept is None:
        return failure
    findings = (*kept.findings, *failure.findings)
    return replace(failure, metrics=kept.metrics, evidence=kept.evidence, findings=findings)


def _record(case: Case, status: Status, error: str, wall_s: float | None, phase: str) -> CaseRecord:
    return CaseRecord(
        id=case.id, spec=case.to_json(), status=status, error=error, wall_s=wall_s, extra={"phase": phase}
    )
