"""Saves a profile of a few steady steps where TensorBoard and XProf look for it, and checks that it holds them.

The profile appears under its final name only when it is whole. Whatever goes wrong is a finding: a run is
worth keeping without its trace.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from jax.profiler import ProfileOptions, StepTraceAnnotation

from qwenperf import units
from qwenperf.errors import UsageError
from qwenperf.measure.capture_check import BadCaptureError, checked, finding
from qwenperf.measure.capture_folder import PLACE, workplace
from qwenperf.measure.capture_limits import STOP_S
from qwenperf.measure.capture_lock import CaptureBusyError, one_at_a_time
from qwenperf.schema.records import Finding, Severity

STEP_NAME, REQUEST_NAME = "decode", "request"
"""What steps, and whole requests, are called in a trace."""

_SESSION = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")


@dataclass(frozen=True, kw_only=True)
class Capture:
    """What became of a capture: the file and its summary, or findings that say why there is none."""

    path: Path | None = None
    summary: dict[str, Any] | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Request:
    folder: Path
    session: str
    step: Callable[[], object]
    begin: Callable[[], object]
    steps: int
    name: str
    tokens_per_step: int
    max_bytes: int
    deadline_s: float
    stop_s: float
    python: bool
    now: Callable[[], float]
    last: bool = False


def capture(
    folder: Path,
    session: str,
    step: Callable[[], object],
    *,
    begin: Callable[[], object] = lambda: None,
    steps: int = 8,
    name: str = STEP_NAME,
    tokens_per_step: int = 1,
    max_bytes: int = 64_000_000,
    deadline_s: float = 30.0,
    stop_s: float = STOP_S,
    python: bool = False,
    now: Callable[[], float] = time.monotonic,
) -> Capture:
    """Profile ``steps`` calls of ``step`` into ``folder/plugins/profile/<session>/<host>.xplane.pb``.

    ``begin`` is called before each attempt, outside the profile, so that each sees the same steps, which are annotated
    as ``name``. Stops early at
    ``deadline_s``, and gives up a profiler that takes ``stop_s`` to write. A profile that cannot be used is taken once
    more, with fewer steps where it was too large or cut. One step makes ``tokens_per_step`` tokens a row; ``python``
    records Python's own calls too, which slows them.

    Raises:
      UsageError: ``session`` is no folder name, or fewer than one step.
      OutputError: ``folder`` cannot be written.
    """
    if not _SESSION.fullmatch(session):
        told = "Use letters, digits, and '.', '_' and '-' between them."
        raise UsageError(f"{session!r} cannot name a trace session.", advice=told)
    if steps < 1:
        raise UsageError(f"{steps} steps asked for; a trace needs at least 1.")
    request = _Request(
        folder=folder,
        session=session,
        step=step,
        begin=begin,
        steps=steps,
        name=name,
        tokens_per_step=tokens_per_step,
        max_bytes=max_bytes,
        deadline_s=deadline_s,
        stop_s=stop_s,
        python=python,
        now=now,
    )
    try:
        with one_at_a_time(f"session {session} into {folder}", deadline_s):
            return _try_twice(request)
    except CaptureBusyError as error:
        return Capture(findings=(finding("trace-busy", error.message, error.advice),))


def _try_twice(request: _Request) -> Capture:
    try:
        return _attempt(request)
    except BadCaptureError as error:
        if not error.retry_steps:
            return Capture(findings=(error.finding(),))
        steps = min(request.steps, error.retry_steps)
    try:
        return _attempt(replace(request, steps=steps, last=True))
    except BadCaptureError as error:
        return Capture(findings=(error.finding(),))


def _attempt(request: _Request) -> Capture:
    target = request.folder / PLACE / request.session
    if target.exists():
        raise BadCaptureError("trace-exists", f"{target} is there already.", "Give each case a session of its own.")
    with workplace(request.folder, request.session) as work:
        done = _record(request, work)
        return _publish(request, work / PLACE / request.session, target, done)


def _record(request: _Request, work: Path) -> int:
    """Profile up to ``request.steps`` steps; return how many there were."""
    options = ProfileOptions()
    options.session_id = request.session
    options.python_tracer_level = int(request.python)
    jax.block_until_ready(request.begin())
    try:
        jax.profiler.start_trace(str(work), profiler_options=options)
    except RuntimeError as error:
        advice = "Stop the other trace (jax.profiler.stop_trace) or run with --no-trace."
        raise BadCaptureError("profiler-busy", f"the profiler could not be started: {error}", advice) from error
    try:
        done = _take_steps(request)
    except BaseException:
        with suppress(Exception):  # what ended the steps says more than how the profiler takes it
            _stop(request.stop_s)
        raise
    _stop(request.stop_s)
    return done


def _take_steps(request: _Request) -> int:
    done, deadline = 0, request.now() + request.deadline_s
    while done < request.steps and (done == 0 or request.now() < deadline):
        with StepTraceAnnotation(request.name, step_num=done):
            jax.block_until_ready(request.step())
        done += 1
    return done


def _stop(limit_s: float) -> None:
    """Let the profiler write what it has, and leave it behind where that takes too long."""
    failed: list[BaseException] = []

    def stop() -> None:
        try:
            jax.profiler.stop_trace()
        except BaseException as error:  # noqa: BLE001  (raised below, in the thread that asked)
            failed.append(error)

    thread = threading.Thread(target=stop, name="qwenperf-stop-trace", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        told = f"the profiler has not written its profile after {units.seconds(limit_s)}."
        raise BadCaptureError("trace-stuck", told, "Trace fewer steps, or run with --no-trace.")
    if failed:
        raise failed[0]


def _publish(request: _Request, saved: Path, target: Path, done: int) -> Capture:
    """Check what was saved and move it into place."""
    file, summary, remarks = checked(
        saved,
        request.name,
        done,
        max_bytes=request.max_bytes,
        tokens_per_step=request.tokens_per_step,
        last=request.last,
    )
    for other in saved.iterdir():
        if other != file:  # the same events once more, for a viewer that needs no plugin
            other.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    saved.rename(target)
    if done < request.steps:
        told = f"the trace has {done} of {request.steps} steps: the deadline passed."
        remarks = (*remarks, finding("trace-cut", told, "Allow more time.", Severity.NOTE))
    return Capture(path=target / file.name, summary=summary, findings=remarks)
