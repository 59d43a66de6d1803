"""Saves a profile of a few steady steps where TensorBoard and XProf look for it, and checks that it holds them.

The profile appears under its final name only when it is whole. Whatever goes wrong is a finding: a run is
worth keeping without its trace.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.profiler import ProfileOptions, StepTraceAnnotation

from qwenperf import units
from qwenperf.errors import OutputError, RecordError, UsageError
from qwenperf.measure import xplane
from qwenperf.schema.records import Finding, Severity
from qwenperf.traces.summary import summarize

STEP_NAME = "decode"
_PLACE = Path("plugins") / "profile"
_TEMPORARY = ".capture-"


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
    max_bytes: int
    deadline_s: float
    now: Callable[[], float]


class _BadCaptureError(Exception):
    """A profile that cannot be used; ``code`` names the finding."""

    def __init__(self, code: str, message: str, advice: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.advice, self.retry = code, message, advice, retry


def session_name(text: str) -> str:
    """Make a session name that is one folder: ``model/cached/b1`` -> ``model-cached-b1``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "session"


def capture(
    folder: Path,
    session: str,
    step: Callable[[], object],
    *,
    begin: Callable[[], object] = lambda: None,
    steps: int = 8,
    max_bytes: int = 64_000_000,
    deadline_s: float = 30.0,
    now: Callable[[], float] = time.monotonic,
) -> Capture:
    """Profile ``steps`` calls of ``step`` into ``folder/plugins/profile/<session>/<host>.xplane.pb``.

    ``begin`` is called before each attempt, outside the profile, so that each sees the same steps. Stops early at
    ``deadline_s``. A profile without our steps or without operations is taken once more.

    Raises:
      UsageError: ``session`` is no folder name, or fewer than one step.
      OutputError: ``folder`` cannot be written.
    """
    if session_name(session) != session:
        raise UsageError(f"{session!r} cannot name a trace session.", advice=f"Use {session_name(session)!r}.")
    if steps < 1:
        raise UsageError(f"{steps} steps asked for; a trace needs at least 1.")
    request = _Request(
        folder=folder,
        session=session,
        step=step,
        begin=begin,
        steps=steps,
        max_bytes=max_bytes,
        deadline_s=deadline_s,
        now=now,
    )
    try:
        return _attempt(request)
    except _BadCaptureError as error:
        if not error.retry:
            return _without(error)
    try:
        return _attempt(request)
    except _BadCaptureError as error:
        return _without(error)


def _attempt(request: _Request) -> Capture:
    target = request.folder / _PLACE / request.session
    if target.exists():
        raise _BadCaptureError("trace-exists", f"{target} is there already.", "Give each case a session of its own.")
    with _workplace(request.folder, request.session) as work:
        done = _record(request, work)
        return _publish(request, work / _PLACE / request.session, target, done)


def _without(error: _BadCaptureError) -> Capture:
    return Capture(findings=(_finding(error.code, error.message, error.advice),))


@contextmanager
def _workplace(folder: Path, session: str) -> Iterator[Path]:
    """Give a folder beside the target, gone afterwards; those of processes that were killed go too."""
    work = folder / f"{_TEMPORARY}{os.getpid()}-{session}"
    try:
        _sweep(folder)
        work.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"the trace cannot be written to {folder}: {error}.") from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(folder: Path) -> None:
    for old in folder.glob(f"{_TEMPORARY}*"):
        owner = old.name.removeprefix(_TEMPORARY).partition("-")[0]
        if owner == str(os.getpid()) or not _alive(owner):
            shutil.rmtree(old, ignore_errors=True)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _record(request: _Request, work: Path) -> int:
    """Profile up to ``request.steps`` steps; return how many there were."""
    options = ProfileOptions()
    options.session_id = request.session
    options.python_tracer_level = 0
    jax.block_until_ready(request.begin())
    try:
        jax.profiler.start_trace(str(work), profiler_options=options)
    except RuntimeError as error:
        advice = "Stop the other trace (jax.profiler.stop_trace) or run with --no-trace."
        raise _BadCaptureError("profiler-busy", f"the profiler could not be started: {error}", advice) from error
    done, deadline = 0, request.now() + request.deadline_s
    try:
        while done < request.steps and (done == 0 or request.now() < deadline):
            with StepTraceAnnotation(STEP_NAME, step_num=done):
                jax.block_until_ready(request.step())
            done += 1
    finally:
        jax.profiler.stop_trace()
    return done


def _publish(request: _Request, saved: Path, target: Path, done: int) -> Capture:
    """Check what was saved and move it into place."""
    file = next(iter(saved.glob("*.xplane.pb")), None)
    if file is None or file.stat().st_size == 0:
        raise _BadCaptureError("trace-empty", "the profiler wrote no profile.", "See `jax.profiler` logs.", retry=True)
    size = file.stat().st_size
    if size > request.max_bytes:
        limit = units.byte_count(request.max_bytes)
        told = f"the trace of {done} steps has {units.byte_count(size)}, over the limit of {limit}."
        raise _BadCaptureError("trace-too-large", told, "Trace fewer steps, or raise the limit.")
    summary = _checked_summary(file, done)
    for other in saved.iterdir():
        if other != file:  # the same events once more, for a viewer that needs no plugin
            other.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    saved.rename(target)
    told = f"the trace has {done} of {request.steps} steps: the deadline passed."
    cut = _finding("trace-cut", told, "Allow more time.", Severity.NOTE)
    findings = (cut,) if done < request.steps else ()
    return Capture(path=target / file.name, summary={**summary, "bytes": size}, findings=findings)


def _checked_summary(file: Path, done: int) -> dict[str, Any]:
    try:
        profile = xplane.read(file, STEP_NAME)
    except RecordError as error:
        raise _BadCaptureError("trace-unreadable", error.message, "", retry=True) from error
    if len(profile.steps) != done:
        told = f"the trace shows {len(profile.steps)} of {done} steps; planes: {', '.join(profile.planes)}."
        raise _BadCaptureError("trace-incomplete", told, "Trace fewer steps.", retry=True)
    if not profile.operations:
        told = f"the trace has steps and no device operation; planes: {', '.join(profile.planes)}."
        advice = "The step may do no device work, or this backend reports no operations to the profiler."
        raise _BadCaptureError("trace-without-operations", told, advice, retry=True)
    return summarize(profile.steps, profile.operations)


def _finding(code: str, message: str, advice: str, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(code=code, severity=severity, message=message, advice=advice)
