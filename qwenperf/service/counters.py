"""What the service counts of itself, for ``/metrics``."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping

_Labels = tuple[tuple[str, str], ...]


class Counters:
    """Sums by name and labels, which any thread may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, name: str, value: float = 1.0, /, **labels: str) -> None:
        """Add ``value`` to one sum."""
        with self._lock:
            self._sums[name][tuple(sorted(labels.items()))] += value

    def samples(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield name, labels and sum, sorted."""
        with self._lock:
            sums = {name: dict(values) for name, values in self._sums.items()}
        for name in sorted(sums):
            for labels, value in sorted(sums[name].items()):
                yield name, dict(labels), value
