"""The steady phase: timed requests and first tokens by turns, all repeated once when a window is void.

A trial is a request and right behind it a stream (or a first token): what slows the machine for a while slows both, so
that their difference, the time of decoding, is one of neighbours. Trials have other prompts than that whose tokens are
compared, of its shape, so that an engine that keeps its answers is not fast for that. What each gives back is looked at
behind the clock: an engine that does less once it is warm is not fast for that either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from qwenperf.lab.forms import Forms
from qwenperf.lab.metrics import Floors
from qwenperf.lab.prompts import other_prompts
from qwenperf.measure.clock import Clock, StreamWindow, Window
from qwenperf.schema.records import Finding, Severity, StreamEvidence


class _Window(Protocol):
    @property
    def voids(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Steady:
    """What the steady windows gave; a void window leaves its part empty and says why in ``voids``."""

    request_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    stream: StreamEvidence | None
    repeated: np.ndarray | None
    """The tokens of a timed request for the prompt whose tokens are compared, where there was one."""
    voids: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def measure_steady(
    forms: Forms, clock: Clock, trials: int, floors: Floors, prompts: Iterator[np.ndarray] | None = None
) -> Steady:
    """Time ``trials`` whole requests, each followed by a stream (or a first token, where the engine has no stream).

    ``prompts`` are those that are asked for, of the shape of the compared one; by default its tokens in other orders.

    Raises:
      MeasurementError: a trial gave back something that is no answer; names it.
    """
    prompts = other_prompts(forms.prompt_BT) if prompts is None else prompts
    first = _measure(forms, prompts, clock, trials, floors)
    if not first.voids:
        return first
    again = _measure(forms, prompts, clock, trials, floors)
    if again.voids:
        return again
    note = Finding(
        code="window-repeated",
        severity=Severity.NOTE,
        message=f"the first steady window was void and was repeated: {first.voids[0]}.",
        data={"voids": list(first.voids)},
    )
    return replace(again, findings=(note,))


def _measure(forms: Forms, prompts: Iterator[np.ndarray], clock: Clock, trials: int, floors: Floors) -> Steady:
    requests: list[Window[np.ndarray]] = []
    firsts: list[Window[np.ndarray]] = []
    streams: list[StreamWindow[np.ndarray]] = []
    # Where a request takes minutes, the last trial saves one more for the comparison.
    compared = trials if forms.requests_only and trials > 1 else None
    for trial in range(1, trials + 1):
        whole, first = (_asked(forms, prompts, compared=trial == compared) for _ in range(2))
        requests.append(clock.window(whole.request, 1, floor_s=floors.request_s, first_trial=trial))
        if forms.streams:
            streams.append(clock.stream(first.stream, 1, floor_s=floors.step_s, first_trial=trial))
            forms.check_stream(streams[-1].items, f"trial {trial}")
        else:
            firsts.append(clock.window(first.first_token, 1, first_trial=trial))
            forms.check_first_token(firsts[-1].result, f"trial {trial}")
        # Only now, so that nothing lies between a request and its neighbour.
        forms.check_tokens(requests[-1].result, f"trial {trial}")
    void_requests = _voids("request", requests)
    void_firsts = _voids("stream", streams) + _voids("first token", firsts)
    samples_s = [window.first_s for window in streams] + [window.samples_s for window in firsts]
    return Steady(
        request_s=() if void_requests else _flat([window.samples_s for window in requests]),
        ttft_s=() if void_firsts else _flat(samples_s),
        stream=_evidence(forms, streams) if streams and not void_firsts else None,
        repeated=requests[-1].result if compared and not void_requests else None,
        voids=void_requests + void_firsts,
    )


def _asked(forms: Forms, prompts: Iterator[np.ndarray], *, compared: bool) -> Forms:
    return forms if compared else replace(forms, prompt_BT=next(prompts))


def _voids(name: str, windows: Sequence[_Window]) -> tuple[str, ...]:
    return tuple(f"{name}: {void}" for window in windows for void in window.voids)


def _flat(parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(seconds for part in parts for seconds in part)


def _evidence(forms: Forms, streams: Sequence[StreamWindow[np.ndarray]]) -> StreamEvidence:
    """Say at which position each step wrote: the first of them writes right behind the prompt."""
    start = forms.workload.prompt_length
    step_s = tuple(trial for window in streams for trial in window.step_s)
    return StreamEvidence(positions=tuple(range(start, start + len(step_s[0]))), step_s=step_s)
