"""Why something compiled: what one thread has heard of it, joined from JAX's explanations and from ledgers of calls."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field, replace

from qwenperf.measure.explanation import Explanation
from qwenperf.schema.records import CompileCause


@dataclass(kw_only=True)
class Call:
    """A watched call that is running: what differed in its arguments."""

    name: str
    causes: tuple[CompileCause, ...]


@dataclass
class Heard(threading.local):
    """What one thread has heard and not used yet; a compile's events all come on the thread that asked for it."""

    hit: bool = False
    saved_s: float | None = None
    explanations: deque[Explanation] = field(default_factory=lambda: deque(maxlen=64))
    calls: list[Call] = field(default_factory=list)
    latest: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)

    def since_latest(self, function: str, causes: tuple[CompileCause, ...]) -> tuple[CompileCause, ...]:
        """Say what changed since the function's latest compile: JAX compares with any earlier one that is as close."""
        if any(cause.what == "new" for cause in causes):  # another function of the same name, perhaps
            self.latest.pop(function, None)
            return causes
        latest, told = self.latest.setdefault(function, {}), []
        for cause in causes:
            before = latest.get((cause.argument, cause.what), cause.before)
            latest[cause.argument, cause.what] = cause.after
            told.append(cause if before == cause.after else replace(cause, before=before))
        return tuple(told)

    def take_explanation(self, function: str) -> Explanation | None:
        """Return the latest explanation for ``function``, and forget it and all after it (functions within)."""
        waiting = self.explanations
        for index in range(len(waiting) - 1, -1, -1):
            if waiting[index].function == function:
                found = waiting[index]
                while len(waiting) > index:
                    waiting.pop()
                return found
        return None


def joined(explanation: Explanation | None, call: Call | None) -> tuple[CompileCause, ...]:
    """Join both sources: JAX's own causes first, then what only the ledger saw (a sharding, a static value)."""
    told = explanation.causes if explanation else ()
    seen = call.causes if call else ()
    # JAX has numbers for static arguments, and the ledger their names.
    named = {cause.after for cause in seen if cause.what == "static"}
    told = tuple(cause for cause in told if not (cause.what == "static" and cause.after in named))
    known = {(cause.argument, cause.what) for cause in told}
    return told + tuple(cause for cause in seen if (cause.argument, cause.what) not in known)
