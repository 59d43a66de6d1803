"""Hears JAX's cache-miss explanations while somebody listens, without showing them to anybody else.

``jax_explain_cache_misses`` makes JAX log each explanation as a warning. The flag, the logger and its
handlers are put back when the last listener leaves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import jax

from qwenperf.measure.explanation import Explanation, read_explanation

Listener = Callable[[Explanation], None]


class _Ear(logging.Handler):
    """Passes explanations to listeners, and every other record of JAX on to where it would have gone."""

    def __init__(self, listeners: list[Listener], *, pass_on: bool) -> None:
        super().__init__(level=logging.NOTSET)
        self._listeners = listeners
        self._pass_on = pass_on

    def emit(self, record: logging.LogRecord) -> None:
        explanation = read_explanation(record.getMessage())
        if explanation:
            for listener in tuple(self._listeners):
                listener(explanation)
        if self._pass_on and not _is_ours(record):
            logging.getLogger().handle(record)


def _is_ours(record: logging.LogRecord) -> bool:
    """Say whether ``record`` exists only because the flag is on."""
    text = record.getMessage()
    return "CACHE MISS" in text or ("persistent c" in text.lower() and "ersistent cache hit" not in text)


class _Hush(logging.Filter):
    """Keeps the handlers that JAX's logger already has from printing what only we asked for."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_ours(record)


class _Wire:
    """The one connection to JAX's logger, counted: several logs may listen at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._undo: list[Callable[[], None]] = []

    def join(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)
            if len(self._listeners) == 1:
                self._connect()

    def leave(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.remove(listener)
            while not self._listeners and self._undo:
                self._undo.pop()()

    def _connect(self) -> None:
        logger = logging.getLogger("jax")
        asked_before = bool(jax.config.jax_explain_cache_misses)  # type: ignore[attr-defined] # flags are set at run time
        ear = _Ear(self._listeners, pass_on=not asked_before and logger.propagate)
        if not asked_before:
            self._silence(logger)
            _explain(wanted=True)
            self._undo.append(lambda: _explain(wanted=False))
        logger.addHandler(ear)
        self._undo.append(lambda: logger.removeHandler(ear))

    def _silence(self, logger: logging.Logger) -> None:
        hush, handlers, propagate = _Hush(), tuple(logger.handlers), logger.propagate
        for handler in handlers:
            handler.addFilter(hush)
        logger.propagate = False

        def restore() -> None:
            logger.propagate = propagate
            for handler in handlers:
                handler.removeFilter(hush)

        self._undo.append(restore)


def _explain(*, wanted: bool) -> None:
    jax.config.update("jax_explain_cache_misses", wanted)


_WIRE = _Wire()


def join(listener: Listener) -> None:
    """Call ``listener`` with each explanation until ``leave``."""
    _WIRE.join(listener)


def leave(listener: Listener) -> None:
    """Stop calling ``listener``; the last one to leave puts JAX's logging back as it was."""
    _WIRE.leave(listener)
