"""Measures the cases of a run, each in a fresh process, and keeps what is measured on disk before the next begins."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qwenperf.errors import EnvironmentUnfitError, RecordError
from qwenperf.lab import failures
from qwenperf.lab.executor import Message, execute, log_tail
from qwenperf.lab.options import Options
from qwenperf.lab.process import (
    left_finding,
    measuring_environ,
    not_asked_for,
    of_the_machine,
    place_of_programs,
    settings_of,
)
from qwenperf.lab.run_folder import RunFolder, session_name, write_text
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.codec import case_loads, dumps
from qwenperf.schema.records import CaseRecord, Finding, RunRecord, Severity, Status
from qwenperf.workloads.case import Case

STARTING = "starting"
WORKER = (sys.executable, "-P", "-m", "qwenperf.lab.worker")


class Listener(Protocol):
    """Who wants to know what is going on."""

    def case_started(self, case: Case, number: int, total: int) -> None:
        """``case`` is measured now, as the ``number``-th of ``total``."""
        ...

    def phase(self, case: Case, name: str) -> None:
        """The process of ``case`` says what it is doing."""
        ...

    def case_ended(self, record: CaseRecord) -> None:
        """A case has been measured, or given up."""
        ...


def new_run(folder: RunFolder, suite: str, cases: Sequence[Case], commit: Mapping[str, Any]) -> RunRecord:
    """Return the record of a run in which nothing has been measured yet."""
    return RunRecord(
        id=folder.id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        suite=suite,
        environment={},
        commit=commit,
        declared=tuple(case.id for case in cases),
    )


@one_measurement()
def run_cases(
    run: RunRecord,
    cases: Sequence[Case],
    *,
    folder: RunFolder,
    options: Options,
    listener: Listener,
    judge: Callable[[RunRecord], RunRecord] = lambda run: run,
    command: Sequence[str] = WORKER,
) -> RunRecord:
    """Measure ``cases`` one after another and return the judged run.

    ``run.json`` is rewritten, judged, after each case. An interrupt ends the run: what was measured is kept and the
    record says ``interrupted``. Nothing is written before the machine is free.

    Raises:
      OutputError: the folder cannot be written to any more.
      EnvironmentUnfitError: JAX does not start here, or is told to debug, or something else is measured here.
    """
    write_text(folder.record, dumps(run))
    for number, case in enumerate(cases, start=1):
        listener.case_started(case, number, len(cases))
        child = _Child(case, folder, listener)
        try:
            record = child.measure(options, command)
        except KeyboardInterrupt:
            record = failures.with_kept(failures.interrupted(case, child.phase), child.kept())
            run = replace(run, interrupted=True)
        before = run
        try:
            run = _add(before, record, child, folder=folder, judge=judge)
        except KeyboardInterrupt:
            # The case is measured: it is judged and written all the same, and is the last one.
            run = _add(replace(before, interrupted=True), record, child, folder=folder, judge=judge)
        if run.interrupted:
            break
        _check_fit(run)
    return run


def _add(
    run: RunRecord, record: CaseRecord, child: _Child, *, folder: RunFolder, judge: Callable[[RunRecord], RunRecord]
) -> RunRecord:
    """Add a case, judge, write, tell."""
    run = judge(_with_case(run, record, child))
    write_text(folder.record, dumps(run))
    child.tell_end(run.cases[-1])
    return run


def _check_fit(run: RunRecord) -> None:
    """Stop where JAX has not started yet: it would not for the next case either."""
    failure = run.cases[-1]
    if not run.environment and failure.extra.get("exit_code") == EnvironmentUnfitError.exit_code:
        raise EnvironmentUnfitError(failure.error or "JAX does not start.")


def _with_case(run: RunRecord, record: CaseRecord, child: _Child) -> RunRecord:
    """Add a case; environment and remarks are the first process's, as later ones see the load of earlier ones."""
    run = replace(run, cases=(*run.cases, record))
    if run.environment:
        return run
    return replace(run, environment=child.environment, findings=(*run.findings, *child.findings))


class _Child:
    """The process of one case, and what it has said so far."""

    def __init__(self, case: Case, folder: RunFolder, listener: Listener) -> None:
        self.phase = STARTING
        self.environment: Mapping[str, Any] = {}
        self.findings: tuple[Finding, ...] = ()
        self.left: Mapping[str, Any] | None = None
        self._case, self._folder, self._listener = case, folder, listener
        self._settings = settings_of(case)

    def measure(self, options: Options, command: Sequence[str]) -> CaseRecord:
        options = replace(options, session=session_name(self._case.id), trials=self._case.trials)
        with place_of_programs(self._settings) as place:
            if place is None:
                return self._run(options, command)
            options = replace(options, start_folder=str(place))
            failure = self._run(options, command, first=True)
            if self.left is None:
                return failure
            record = self._run(options, command)
            return replace(record, findings=(*record.findings, left_finding(self.left)))

    def _run(self, options: Options, command: Sequence[str], *, first: bool = False) -> CaseRecord:
        """Run one process; return the record of it, or of its failure (a first process that succeeds has neither)."""
        case, out, log = self._case, self._folder.case(options.session), self._folder.log(options.session)
        place = None if options.start_folder is None else Path(options.start_folder)
        spec = json.dumps({"case": case.to_json(), "options": options.to_json(), "first": first})
        ended = execute(
            [*command, spec, str(out)],
            time_limit_s=case.time_limit_s,
            log=log,
            on_message=self._hear,
            environ=measuring_environ(os.environ, self._settings, place),
        )
        record = self.kept()
        if ended.timed_out:
            return failures.with_kept(failures.timed_out(case, ended, self.phase, str(log)), record)
        if not (record or self.environment):
            unfit = failures.unfit(case, log_tail(log), self._settings.xla_flags)
            if unfit is not None:
                return unfit
        if record is None or record.status is Status.INTERRUPTED:
            return failures.with_kept(failures.crashed(case, ended, self.phase, log_tail(log)), record)
        return replace(record, wall_s=ended.wall_s)

    def tell_end(self, record: CaseRecord) -> None:
        """Tell the listener that the case is over."""
        self._listener.case_ended(record)

    def kept(self) -> CaseRecord | None:
        """Return the record that the process left, perhaps before its end; ``None`` where it left none."""
        out = self._folder.case(session_name(self._case.id))
        try:
            return case_loads(out.read_text(encoding="utf-8"), str(out))
        except (OSError, RecordError):
            return None

    def _hear(self, message: Message) -> None:
        if "environment" in message:
            self.environment = of_the_machine(message["environment"], self._settings)
            findings = tuple(_finding(data) for data in message.get("findings", ()))
            self.findings = not_asked_for(findings, self._settings)
        if "left" in message:
            self.left = message["left"]
        if "phase" in message:
            self.phase = str(message["phase"])
            self._listener.phase(self._case, self.phase)
        if "compiles" in message:
            self._listener.phase(self._case, f"{self.phase}, {message['compiles']} programs compiled so far")


def _finding(data: Mapping[str, Any]) -> Finding:
    return Finding(**{**data, "severity": Severity(data["severity"])})
