"""Counts and explains compiles, from public ``jax.monitoring`` events.

Knows which function was compiled, in which phase, by whose line of code, and which argument had changed.
Programs that came from the persistent cache fire the same event and are counted apart. Does not time
anything: the seconds are JAX's own.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from jax import monitoring

from qwenperf.errors import RefusedCallError
from qwenperf.measure import listening
from qwenperf.measure.callsite import current_place, place_of
from qwenperf.measure.compile_causes import Call, Heard, joined
from qwenperf.measure.compile_words import describe
from qwenperf.measure.explanation import Explanation, read_refusal
from qwenperf.measure.signature import Ledger
from qwenperf.schema.records import CompileEvent

_COMPILED = "/jax/core/compile/backend_compile_duration"
_REQUESTED = "/jax/compilation_cache/compile_requests_use_cache"
_HIT = "/jax/compilation_cache/cache_hits"
_SAVED = "/jax/compilation_cache/compile_time_saved_sec"

P = ParamSpec("P")
R = TypeVar("R")


class CompileLog:
    """Records every compile while it is entered. Several logs may be open at once, each with phases of its own."""

    def __init__(self, *, phase: str = "cold", explain: bool = True) -> None:
        self._phase = phase
        self._explain = explain
        self._events: list[CompileEvent] = []
        self._thread = Heard()
        self._open = False

    def __enter__(self) -> Self:
        if self._open:
            raise RuntimeError("this CompileLog is open already; open another one")
        monitoring.register_event_listener(self._heard)
        monitoring.register_event_duration_secs_listener(self._heard_duration)
        if self._explain:
            listening.join(self._explained)
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open = False
        if self._explain:
            listening.leave(self._explained)
        with suppress(AssertionError):  # somebody may have cleared all listeners of the process meanwhile
            monitoring.unregister_event_listener(self._heard)
            monitoring.unregister_event_duration_listener(self._heard_duration)

    @property
    def events(self) -> tuple[CompileEvent, ...]:
        """Every compile, cache hit and refused call so far, in order."""
        return tuple(self._events)

    @property
    def current_phase(self) -> str:
        """The phase that the next compile will be counted in."""
        return self._phase

    @contextmanager
    def phase(self, name: str) -> Iterator[Self]:
        """Count compiles within as phase ``name`` (``cold``, ``warmup`` or ``steady``), those of all threads.

        A phase is a time, not a thread: whatever compiles meanwhile takes the cores from what is timed. An event of
        another thread than the main one names it in ``extra["thread"]``.
        """
        before, self._phase = self._phase, name
        try:
            yield self
        finally:
            self._phase = before

    def count(self, phase: str | None = None, *, function: str | None = None) -> int:
        """Return how often the compiler ran, cache hits and refused calls left out."""
        return sum(not (event.cache_hit or event.refused) for event in self._select(phase, function))

    def cache_hits(self, phase: str | None = None, *, function: str | None = None) -> int:
        """Return how many programs came from the persistent compilation cache."""
        return sum(event.cache_hit for event in self._select(phase, function))

    def seconds(self, phase: str | None = None) -> float:
        """Return the seconds that the compiler ran, cache hits left out."""
        return sum(event.seconds for event in self._select(phase, None) if not event.cache_hit)

    def _select(self, phase: str | None, function: str | None) -> list[CompileEvent]:
        return [event for event in self.events if phase in (None, event.phase) and function in (None, event.function)]

    def watch(self, function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
        """Return ``function`` with a ledger of its calls: compiles within a call name the arguments that changed.

        Describing the arguments costs time for each leaf, so time what was not watched.
        """
        called = str(name or getattr(function, "__name__", type(function).__name__))
        ledger = Ledger(function)

        @functools.wraps(function)
        def watched(*args: P.args, **kwargs: P.kwargs) -> R:
            self._thread.calls.append(Call(name=called, causes=ledger.enter(args, kwargs)))
            try:
                with self.refusals(called):
                    return function(*args, **kwargs)
            finally:
                self._thread.calls.pop()

        return watched

    @contextmanager
    def refusals(self, function: str | None = None) -> Iterator[None]:
        """Record a call that an ahead-of-time executable refuses, as evidence like a compile's.

        Raises:
          RefusedCallError: there was one; names the arguments and what they were compiled for.
        """
        try:
            yield
        except (TypeError, ValueError) as error:
            causes = read_refusal(str(error))
            if not causes:
                raise
            place = place_of(error.__traceback__)
            event = CompileEvent(
                function=function or _enclosing(place.function),
                phase=self._phase,
                seconds=0.0,
                refused=True,
                location=place.location,
                causes=causes,
                explanation=str(error),
            )
            self._events.append(event)
            raise RefusedCallError(f"a call was refused: {describe(event)}.") from error

    def _heard(self, event: str, **_: Any) -> None:
        if event == _REQUESTED:
            self._thread.hit, self._thread.saved_s = False, None
        elif event == _HIT:
            self._thread.hit = True

    def _heard_duration(self, event: str, duration_secs: float, **details: Any) -> None:
        if event == _SAVED:
            self._thread.saved_s = duration_secs
        elif event == _COMPILED:
            self._events.append(self._compiled(_plain(str(details.get("fun_name", ""))), duration_secs))
            self._thread.hit, self._thread.saved_s = False, None

    def _compiled(self, function: str, seconds: float) -> CompileEvent:
        explanation = self._thread.take_explanation(function)
        call = self._thread.calls[-1] if self._thread.calls else None
        event = CompileEvent(
            function=function,
            phase=self._phase,
            seconds=seconds,
            cache_hit=self._thread.hit,
            location=current_place().location,
            causes=self._thread.since_latest(function, joined(explanation, call)),
            explanation=explanation.text if explanation else "",
        )
        notes = {"saved_s": self._thread.saved_s, "within": call.name if call else None, "thread": _other_thread()}
        return replace(event, extra={key: value for key, value in notes.items() if value is not None})

    def _explained(self, explanation: Explanation) -> None:
        self._thread.explanations.append(explanation)


def _other_thread() -> str | None:
    """Return this thread's name, ``None`` for the main one."""
    here = threading.current_thread()
    return None if here is threading.main_thread() else here.name


def _plain(name: str) -> str:
    """Take the function out of JAX's wording: ``jit(step)`` -> ``step``."""
    match = re.fullmatch(r"\w+\((.*)\)", name)
    return match[1] if match else name


def _enclosing(function: str) -> str:
    return f"an executable called in {function}" if function else "an executable"
