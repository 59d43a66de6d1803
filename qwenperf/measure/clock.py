"""The one clock. Blocks on every output, and voids a window in which a compile happened.

Knows nothing of models or engines: it is given functions. What a void window means is the caller's business.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import jax

from qwenperf import units
from qwenperf.errors import MeasurementError, UsageError
from qwenperf.measure.compile_words import describe
from qwenperf.measure.compiles import CompileLog

T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """A result, ready on the device, and the seconds until it was."""

    result: T
    seconds: float


class Spent(NamedTuple):
    """Wall seconds and CPU seconds of this process (all threads) for the same work."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, kw_only=True)
class Window(Generic[T]):
    """Repeated calls of one thing. Not a measurement when ``voids`` says why; ``result`` is the last call's."""

    samples_s: tuple[float, ...]
    result: T
    voids: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the samples may be used."""
        return not self.voids


@dataclass(frozen=True, kw_only=True)
class StreamWindow(Generic[T]):
    """Repeated streams: ``first_s[trial]`` to the first item, ``step_s[trial][i]`` from item i to item i+1.

    ``items`` are those of the last stream.
    """

    first_s: tuple[float, ...]
    step_s: tuple[tuple[float, ...], ...]
    items: tuple[T, ...]
    voids: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the samples may be used."""
        return not self.voids


class Clock:
    """Times calls until every array that they return is there."""

    def __init__(
        self,
        log: CompileLog,
        now: Callable[[], float] = time.perf_counter,
        block: Callable[[Any], Any] = jax.block_until_ready,
    ) -> None:
        self._log = log
        self._now = now
        self._block = block

    def call(self, function: Callable[[], T]) -> Timed[T]:
        """Time one call, compile and all.

        Raises:
          RefusedCallError: an ahead-of-time executable refused its arguments.
        """
        with self._log.refusals():
            start = self._now()
            result = function()
            self._block(result)
            return Timed(result, self._now() - start)

    def spend(self, function: Callable[[], object], repeats: int) -> Spent:
        """Time ``repeats`` calls as one, on the wall and in CPU time.

        Raises:
          UsageError: fewer than one.
          RefusedCallError: an ahead-of-time executable refused its arguments.
        """
        _check_trials(repeats)
        with self._log.refusals():
            cpu, start = time.process_time(), self._now()
            for _ in range(repeats):
                self._block(function())
            return Spent(self._now() - start, time.process_time() - cpu)

    def window(
        self,
        function: Callable[[], T],
        trials: int,
        phase: str = "steady",
        floor_s: float | None = None,
        *,
        first_trial: int = 1,
    ) -> Window[T]:
        """Time ``trials`` calls, each blocked on, as phase ``phase`` of the compile log.

        ``floor_s`` is the shortest time that one call can take at all (from the roofline); ``first_trial`` is what
        messages call the first of them.

        Raises:
          UsageError: fewer than one trial.
          RefusedCallError: an ahead-of-time executable refused its arguments.
        """
        _check_trials(trials)
        samples, voids = [], []
        with self._log.phase(phase):
            for trial in range(first_trial, first_trial + trials):
                seen = len(self._log.events)
                result, seconds = self.call(function)
                samples.append(seconds)
                voids += self._voids(f"trial {trial}", seen)
                voids += _too_fast(f"trial {trial}", seconds, floor_s)
        return Window(samples_s=tuple(samples), result=result, voids=tuple(voids))

    def stream(
        self,
        start: Callable[[], Iterable[T]],
        trials: int,
        phase: str = "steady",
        floor_s: float | None = None,
        *,
        first_trial: int = 1,
    ) -> StreamWindow[T]:
        """Time each item of ``trials`` streams, blocked on as it comes.

        ``floor_s`` is for the mean of the steps after the first; ``first_trial`` is what messages call the first trial.

        Raises:
          UsageError: fewer than one trial.
          MeasurementError: a stream gave nothing.
          RefusedCallError: an ahead-of-time executable refused its arguments.
        """
        _check_trials(trials)
        first, steps, voids = [], [], []
        with self._log.phase(phase), self._log.refusals():
            for trial in range(first_trial, first_trial + trials):
                seen = len(self._log.events)
                timed = list(self._items(start))
                if not timed:
                    raise MeasurementError(f"stream {trial} ended without an item.")
                first.append(timed[0].seconds)
                steps.append(tuple(item.seconds for item in timed[1:]))
                voids += self._voids(f"trial {trial}", seen)
                # In the mean: an engine may work out several tokens at once and hand them over one after the other.
                mean_s = sum(steps[-1]) / len(steps[-1]) if steps[-1] else math.inf
                voids += _too_fast(f"trial {trial}: a step in the mean", mean_s, floor_s)
        items = tuple(item.result for item in timed)
        return StreamWindow(first_s=tuple(first), step_s=tuple(steps), items=items, voids=tuple(voids))

    def _items(self, start: Callable[[], Iterable[T]]) -> Iterator[Timed[T]]:
        before = self._now()
        for item in start():
            self._block(item)
            after = self._now()
            yield Timed(item, after - before)
            before = after

    def _voids(self, where: str, seen: int) -> list[str]:
        return [f"{where}: {describe(event)}" for event in self._log.events[seen:]]


def _check_trials(trials: int) -> None:
    if trials < 1:
        raise UsageError(f"{trials} trials asked for; at least 1 is needed.")


def _too_fast(where: str, seconds: float, floor_s: float | None) -> list[str]:
    if floor_s is None or seconds >= floor_s:
        return []
    told = f"{units.seconds(seconds)}, faster than the {units.seconds(floor_s)} that the roofline allows"
    return [f"{where}: {told}; some of the work was not waited for or not done"]
