"""A trace of steady decode steps of any engine: finds one step to repeat, and hands it to ``measure.capture``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.measure.capture import Capture, capture


def trace_steps(forms: Forms, options: Options) -> Capture:
    """Capture a few warm decode steps; one whole request of an engine that cannot step."""
    step, count = _repeatable(forms, options.trace_steps)
    return capture(
        Path(options.trace_folder or "."),
        options.session,
        step,
        steps=count,
        max_bytes=options.trace_max_bytes,
        deadline_s=options.trace_deadline_s,
    )


def _repeatable(forms: Forms, most: int) -> tuple[Callable[[], object], int]:
    """Return a step that may be taken for ever, and how often before it would have to begin a new request."""
    decode_steps = forms.workload.new_tokens - 1
    if not forms.streams or decode_steps < 2:
        return forms.request, 1
    return _stepping(_decode_steps(forms)), min(most, decode_steps - 1)


def _stepping(steps: Iterator[object]) -> Callable[[], object]:
    """Return a function that takes one step, after taking the first: what is captured has prefill behind it."""
    next(steps)
    return partial(next, steps)


def _decode_steps(forms: Forms) -> Iterator[np.ndarray]:
    """Yield after each decode step; a capture that is repeated may need those of another request."""
    while True:
        yield from islice(forms.stream(), 1, None)
