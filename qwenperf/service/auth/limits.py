"""Token buckets: how many requests one caller may make. Kept in memory, so each worker process counts its own."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_CALLERS = 20_000
"""Callers remembered at once. The one that asked longest ago is forgotten first: by then its bucket is likely full."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """``per_s`` requests a second are sustained; ``burst`` may come at once."""

    per_s: float
    burst: int


@dataclass
class _Bucket:
    left: float
    at: float


class Limiter:
    """Counts requests by caller. ``clock`` is passed in, so that tests need not wait."""

    def __init__(self, clock: Callable[[], float], most_callers: int = _MOST_CALLERS) -> None:
        self._clock, self._most = clock, most_callers
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def know(self, caller: str) -> None:
        """Remember that this caller's credential was found good: only then has it a bucket of its own."""
        with self._lock:
            self._known[caller] = None
            self._known.move_to_end(caller)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def knows(self, caller: str) -> bool:
        """Say whether this caller's credential was found good lately."""
        with self._lock:
            return caller in self._known

    def take(self, caller: str, rate: Rate) -> int:
        """Take one request of ``caller``; return 0, or the whole seconds after which the next one may come."""
        now = self._clock()
        with self._lock:
            bucket = self._buckets.pop(caller, None) or _Bucket(float(rate.burst), now)
            bucket.left = min(float(rate.burst), bucket.left + (now - bucket.at) * rate.per_s)
            bucket.at = now
            self._buckets[caller] = bucket
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            if bucket.left >= 1.0:
                bucket.left -= 1.0
                return 0
            return max(1, math.ceil((1.0 - bucket.left) / rate.per_s))
