"""A trace of steady decode steps of any engine: finds one step to repeat, and hands it to ``measure.capture``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from qwenperf.decode.engine import StepEngine
from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.measure.capture import Capture, capture


def trace_steps(forms: Forms, options: Options) -> Capture:
    """Capture a few warm decode steps; whole requests for an engine that cannot step.

    One step is taken before the capture begins, so that what is captured is steady.
    """
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
    """Return a warm step and how often the request's length lets it be taken."""
    left = forms.workload.new_tokens - 2
    if isinstance(forms.engine, StepEngine) and left >= 1:
        step = _Stepper(forms.engine, forms.prompt_BT)
        step()
        return step, min(most, left)
    if forms.streams and left >= 1:
        stream = forms.stream()
        next(stream)
        next(stream)
        return lambda: next(stream), min(most, left)
    return forms.request, 1


class _Stepper:
    """Takes one greedy decode step each time it is called."""

    def __init__(self, engine: StepEngine, prompt_BT: np.ndarray) -> None:
        self._engine = engine
        self._logits, self._state = engine.prefill(prompt_BT)

    def __call__(self) -> object:
        tokens_B = np.asarray(self._logits).argmax(-1).astype(np.int32)
        self._logits, self._state = self._engine.decode_step(tokens_B, self._state)
        return self._logits
