"""Looks at a profile that was just written: does it hold the steps and the device's work, and is it whole?"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qwenperf import units
from qwenperf.errors import RecordError
from qwenperf.schema.records import Finding, Severity
from qwenperf.traces import graphs, xplane
from qwenperf.traces.summary import summarize

_ROOM = 0.8
"""The share of the limit that a second, smaller profile aims at."""

_FEW = 0.5
"""A step that shows less than this share of the usual operations has lost some, or is a step of another kind."""

_LITTLE = 0.2
"""A step whose operations take less than this share of the usual time has lost some: noise makes steps longer only."""

_COVERED = 0.01
"""Where operations run in less than this share of the steps, a reader has to know why."""

_HIDDEN = 0.05
"""The share of the device's time inside CUDA graphs that is worth a remark."""


class BadCaptureError(Exception):
    """A profile that cannot be used. ``code`` names the finding; ``retry_steps`` is how many to try again, or 0."""

    def __init__(self, code: str, message: str, advice: str, *, retry_steps: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.advice, self.retry_steps = code, message, advice, retry_steps

    def finding(self) -> Finding:
        """Return what to tell of it."""
        return finding(self.code, self.message, self.advice)


def finding(code: str, message: str, advice: str, severity: Severity = Severity.WARNING) -> Finding:
    """Make a finding on a capture."""
    return Finding(code=code, severity=severity, message=message, advice=advice)


def checked(
    saved: Path, step_name: str, done: int, *, max_bytes: int, tokens_per_step: int, last: bool = False
) -> tuple[Path, dict[str, Any], tuple[Finding, ...]]:
    """Return the profile below ``saved``, its summary and remarks on it.

    Steps that show far fewer operations than the others, or far less of their time, are tried again; where this is the
    ``last`` attempt the engine may be made so, and they are a remark.

    Raises:
      BadCaptureError: there is none, or it does not show the ``done`` steps and work of the device.
    """
    file = next(iter(sorted(saved.glob("*.xplane.pb"))), None)
    if file is None or file.stat().st_size == 0:
        raise BadCaptureError(
            "trace-empty", "the profiler wrote no profile.", "See `jax.profiler` logs.", retry_steps=done
        )
    size = file.stat().st_size
    if size > max_bytes:
        told = (
            f"the trace of {done} steps has {units.byte_count(size)}, over the limit of {units.byte_count(max_bytes)}."
        )
        fewer = int(done * max_bytes / size * _ROOM)
        raise BadCaptureError("trace-too-large", told, "Trace fewer steps, or raise the limit.", retry_steps=fewer)
    try:
        profile = xplane.read(file, step_name)
    except RecordError as error:
        raise BadCaptureError("trace-unreadable", error.message, "", retry_steps=done) from error
    _check(profile, done)
    summary = summarize(profile, tokens_per_step=tokens_per_step)
    uneven = _uneven(profile, summary)
    if uneven and not last:
        raise uneven
    remarks = ([uneven.finding()] if uneven else []) + _remarks(summary)
    return file, {**summary, "bytes": size}, tuple(remarks)


def _check(profile: xplane.Profile, done: int) -> None:
    planes = ", ".join(profile.planes)
    fewer = max(1, done // 2)
    if len(profile.steps) != done:
        told = f"the trace shows {len(profile.steps)} of {done} steps; planes: {planes}."
        raise BadCaptureError("trace-incomplete", told, "Trace fewer steps.", retry_steps=fewer)
    if not profile.tracks:
        told = f"the trace has steps and no device operation; planes: {planes}."
        advice = "The step may do no device work, or this backend reports no operations to the profiler."
        raise BadCaptureError("trace-without-operations", told, advice, retry_steps=done)
    last = max(int(track.end_ps.max()) for track in profile.tracks)
    if last <= profile.steps[-1].start_ps:
        seen = sum(step.start_ps < last for step in profile.steps)
        told = f"operations are recorded in {seen} of {done} steps, and none after: the trace was cut."
        raise BadCaptureError("trace-truncated", told, "Trace fewer steps.", retry_steps=fewer)


def _uneven(profile: xplane.Profile, summary: dict[str, Any]) -> BadCaptureError | None:
    """Return what is wrong where a step shows far fewer operations, or far less of their time, than is usual."""
    starts = np.sort(np.concatenate([track.start_ps for track in profile.tracks]))
    begins, ends = (np.array([getattr(step, side) for step in profile.steps]) for side in ("start_ps", "end_ps"))
    counts = (np.searchsorted(starts, ends) - np.searchsorted(starts, begins)).tolist()
    return _thin("operations", "fewer", counts, _FEW, "{:g}".format) or _thin(
        "of operations", "less", summary["step_busy_s"], _LITTLE, units.seconds
    )


def _thin(
    what: str, less: str, seen: list[float], least: float, write: Callable[[float], str]
) -> BadCaptureError | None:
    """Return what is wrong where a step shows less than a share of what the median step does."""
    usual = statistics.median(seen)
    few = [f"{number} ({write(one)})" for number, one in enumerate(seen, start=1) if one < least * usual]
    if not few:
        return None
    told = f"of {write(usual)} {what} in the median step the trace shows far {less} in step {', '.join(few[:3])}"
    told += f" and {len(few) - 3} more." if len(few) > 3 else "."
    advice = "Unless the engine works in some steps only, operations were lost: trace fewer steps."
    return BadCaptureError("trace-uneven", told, advice, retry_steps=max(1, len(seen) // 2))


def _remarks(summary: dict[str, Any]) -> list[Finding]:
    """Tell what the profiler complained of, and what it cannot show."""
    found = [
        finding("trace-remark", f"the profiler says: {text}", "See docs/traces.md.", Severity.NOTE)
        for text in summary["remarks"][:3]
    ]
    covered = summary["device_busy_s"] / sum(summary["step_s"])
    if covered < _COVERED:
        told = f"operations cover {100 * covered:.2g}% of the time of the steps."
        advice = "Either the host is slow (`qwenperf trace show` says at what), or the profiler did not record all."
        found.append(finding("trace-uncovered", told, advice, Severity.NOTE))
    if summary["graphs"] and summary["graphs"]["share"] >= _HIDDEN:
        share = f"{summary['graphs']['share']:.0%}"
        told = f"{share} of the device's time is inside CUDA graphs: a trace does not tell their operations apart."
        found.append(finding("trace-graphs", told, graphs.advice(), Severity.NOTE))
    return found
