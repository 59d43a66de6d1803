"""Compiles and their causes in words, one line each."""

from __future__ import annotations

from qwenperf.schema.records import CompileCause, CompileEvent


def describe(event: CompileEvent) -> str:
    """Write an event in one line: function, place and what changed, old and new."""
    verb = "refused a call" if event.refused else "came from the persistent cache" if event.cache_hit else "compiled"
    place = f" at {event.location}" if event.location else ""
    took = "" if event.refused else f" ({event.seconds:.3g} s)"
    changes = "; ".join(describe_cause(cause) for cause in event.causes)
    return f"{event.function} {verb}{place}{took}" + (f": {changes}" if changes else "")


def describe_cause(cause: CompileCause) -> str:
    """Write a cause in a few words: ``cache['k'] shape f32[8,4] -> f32[9,4]``."""
    if cause.what == "new":
        return f"a function never seen before {cause.after}".strip()
    return f"{cause.argument} {cause.what} {cause.before} -> {cause.after}"
