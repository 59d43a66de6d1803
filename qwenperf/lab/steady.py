"""The steady phase: timed requests and streams, each window repeated once when it is void."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from qwenperf.lab.forms import Forms, stack
from qwenperf.lab.metrics import Floors
from qwenperf.measure.clock import Clock, StreamWindow
from qwenperf.schema.records import Finding, Severity, StreamEvidence


class _Window(Protocol):
    @property
    def voids(self) -> tuple[str, ...]: ...


W = TypeVar("W", bound=_Window)


@dataclass(frozen=True, kw_only=True)
class Steady:
    """What the steady windows gave; a void window leaves its part empty and says why in ``voids``."""

    request_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    stream: StreamEvidence | None
    streamed: np.ndarray | None
    repeated: np.ndarray
    voids: tuple[str, ...]
    findings: tuple[Finding, ...]


def measure_steady(forms: Forms, clock: Clock, trials: int, floors: Floors) -> Steady:
    """Time ``trials`` whole requests and as many streams (or first tokens, where the engine has no stream)."""
    requests, void_requests, notes = _twice(
        "request", lambda: clock.window(forms.request, trials, floor_s=floors.request_s)
    )
    if not forms.streams:
        first, void_first, more = _twice("first token", lambda: clock.window(forms.first_token, trials))
        return Steady(
            request_s=() if void_requests else requests.samples_s,
            ttft_s=() if void_first else first.samples_s,
            stream=None,
            streamed=None,
            repeated=requests.result,
            voids=void_requests + void_first,
            findings=notes + more,
        )
    streams, void_streams, more = _twice("stream", lambda: clock.stream(forms.stream, trials, floor_s=floors.step_s))
    return Steady(
        request_s=() if void_requests else requests.samples_s,
        ttft_s=() if void_streams else streams.first_s,
        stream=None if void_streams else _evidence(forms, streams),
        streamed=stack(streams.items),
        repeated=requests.result,
        voids=void_requests + void_streams,
        findings=notes + more,
    )


def _twice(name: str, measure: Callable[[], W]) -> tuple[W, tuple[str, ...], tuple[Finding, ...]]:
    """Measure a window, once more when it is void; return it, why it is void still, and a note about the first."""
    window = measure()
    if not window.voids:
        return window, (), ()
    again = measure()
    if again.voids:
        return again, tuple(f"{name}: {void}" for void in again.voids), ()
    note = Finding(
        code="window-repeated",
        severity=Severity.NOTE,
        message=f"the first {name} window was void and was repeated: {window.voids[0]}.",
        data={"voids": list(window.voids)},
    )
    return again, (), (note,)


def _evidence(forms: Forms, streams: StreamWindow[np.ndarray]) -> StreamEvidence:
    """Say at which position each step wrote: the first of them writes right behind the prompt."""
    start = forms.workload.prompt_length
    return StreamEvidence(positions=tuple(range(start, start + len(streams.step_s[0]))), step_s=streams.step_s)
