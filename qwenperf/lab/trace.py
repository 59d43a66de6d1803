"""A trace of steady decode steps, or of whole requests, of any engine: ``measure.capture`` is told what to repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from qwenperf import units
from qwenperf.errors import RefusedCallError
from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.lab.trace_files import trace_bytes
from qwenperf.measure.capture import REQUEST_NAME, Capture, capture
from qwenperf.schema.records import Finding, Severity

REQUESTS = 3
"""Whole requests in a trace: a median of them leaves out one that something else disturbed."""


def trace_steps(forms: Forms, options: Options) -> Capture:
    """Capture a few warm decode steps; one whole request of an engine that cannot step.

    Whatever goes wrong (a full disk, the profiler) is a finding: what was measured before is worth keeping.

    Raises:
      RefusedCallError: an executable refused its arguments, which says something of the engine and not of the trace.
    """
    return _taken(options, partial(_steps, forms))


def trace_requests(forms: Forms, options: Options, request: Callable[[], object] | None = None) -> Capture:
    """Capture a few whole requests, prefill and all, as they are timed (``request``); else as ``trace_steps``."""
    return _taken(options, partial(_requests, forms, request or forms.request))


def _taken(options: Options, take: Callable[[Options], Capture]) -> Capture:
    try:
        return _over_quota(options) or take(options)
    except RefusedCallError:
        raise
    except Exception as error:  # noqa: BLE001  (the profiler raises what it likes)
        return Capture(findings=(_lost(error),))


def _lost(error: Exception) -> Finding:
    return Finding(
        code="trace-lost",
        severity=Severity.WARNING,
        message=f"no trace: {type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}.",
        advice="Make room, or run with --no-trace. The measurement is whole without it.",
    )


def _over_quota(options: Options) -> Capture | None:
    """Return a finding instead of a trace where the runs beside this one leave no room for it."""
    out = Path(options.trace_folder or ".").resolve().parent
    used, quota = trace_bytes(out), options.trace_quota_bytes
    if used <= quota:
        return None
    told = f"no trace: those in {out} take {units.byte_count(used)}, over the quota of {units.byte_count(quota)}."
    advice = f"Make room: qwenperf trace prune {out} --max-size 1GB."
    return Capture(findings=(Finding(code="trace-quota", severity=Severity.WARNING, message=told, advice=advice),))


def _saver(options: Options) -> Callable[..., Capture]:
    return partial(
        capture,
        Path(options.trace_folder or "."),
        options.session,
        max_bytes=options.trace_max_bytes,
        deadline_s=options.trace_deadline_s,
        python=options.trace_python,
    )


def _steps(forms: Forms, options: Options) -> Capture:
    save = _saver(options)
    decode_steps = forms.workload.new_tokens - 1
    if not forms.streams or decode_steps < 2:
        return save(forms.request, steps=1, tokens_per_step=max(1, forms.workload.new_tokens))
    stream = Stream(forms=forms)
    steps = min(options.trace_steps, decode_steps - 1)
    return save(stream.step, begin=stream.begin, steps=steps)


def _requests(forms: Forms, request: Callable[[], object], options: Options) -> Capture:
    tokens = max(1, forms.workload.new_tokens)
    return _saver(options)(request, steps=REQUESTS, name=REQUEST_NAME, tokens_per_step=tokens)


@dataclass(kw_only=True)
class Stream:
    """Decode steps of one request; ``begin`` starts it anew and takes prefill and a first step."""

    forms: Forms
    _tokens: Iterator[np.ndarray] = field(init=False, default_factory=lambda: iter(()))

    def begin(self) -> None:
        """Leave the request that may be under way, and bring a new one to its second step."""
        self._tokens = self.forms.stream()
        next(self._tokens)
        next(self._tokens)

    def step(self) -> np.ndarray:
        """Take one decode step."""
        return next(self._tokens)
