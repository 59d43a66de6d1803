"""Sums up a trace: how long the steps were, how busy the device was in them, which operations took the time.

Works on plain spans; how they are read from a profile is ``measure.xplane``'s business.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SECONDS = 1e-9

_CATEGORIES = (
    ("matmul", ("dot", "gemm", "gemv", "matmul", "convolution", "ynn", "onednn", "cublas", "cutlass", "einsum")),
    ("cache update", ("dynamic-update-slice", "dynamic_update_slice", "scatter")),
    ("collective", ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "permute")),
    ("copy", ("copy", "memcpy", "concatenate", "pad")),
    ("gather", ("gather", "dynamic-slice", "dynamic_slice")),
    ("layout", ("transpose", "reshape", "slice")),
    ("reduction", ("reduce", "argmax", "softmax", "sort", "top-k", "topk")),
    ("control", ("while", "conditional", "call", "tuple", "infeed", "outfeed")),
)


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that ran: nanoseconds on the trace's own clock; ``track`` is its thread, stream or core."""

    name: str
    start_ns: float
    duration_ns: float
    track: str = ""
    device: str = ""

    @property
    def end_ns(self) -> float:
        """When it ended."""
        return self.start_ns + self.duration_ns


def summarize(steps: Sequence[Span], operations: Sequence[Span], *, top: int = 20) -> dict[str, Any]:
    """Return plain JSON data; seconds throughout.

    ``device_busy_s`` is the time within steps in which at least one operation ran, averaged over devices;
    ``host_gap_s`` is the rest of the steps. The time of an operation leaves out the operations nested in it.
    """
    step_s = [step.duration_ns * _SECONDS for step in steps]
    busy_s = _busy_s(steps, operations)
    return {
        "steps": len(steps),
        "step_s": step_s,
        "step_median_s": statistics.median(step_s) if step_s else None,
        "device_busy_s": busy_s,
        "host_gap_s": max(0.0, sum(step_s) - busy_s),
        "operation_count": len(operations),
        "operations": _by_name(operations)[:top],
    }


def _busy_s(steps: Sequence[Span], operations: Sequence[Span]) -> float:
    devices = defaultdict(list)
    for operation in operations:
        devices[operation.device].append((operation.start_ns, operation.end_ns))
    windows = merge((step.start_ns, step.end_ns) for step in steps)
    busy = [overlap(merge(spans), windows) for spans in devices.values()]
    return statistics.fmean(busy) * _SECONDS if busy else 0.0


def merge(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of ``intervals`` as disjoint ones, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def overlap(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """Return the length that two lists of disjoint, ordered intervals have in common."""
    total, i, j = 0.0, 0, 0
    while i < len(one) and j < len(other):
        total += max(0.0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


def _by_name(operations: Sequence[Span]) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = defaultdict(list)
    for operation, self_ns in zip(operations, self_times(operations), strict=True):
        times[stem(operation.name)].append(self_ns * _SECONDS)
    total = sum(map(sum, times.values())) or 1.0
    rows = [
        {
            "name": name,
            "category": category(name),
            "count": len(spent),
            "time_s": sum(spent),
            "share": sum(spent) / total,
        }
        for name, spent in times.items()
    ]
    return sorted(rows, key=lambda row: (-row["time_s"], row["name"]))


def self_times(operations: Sequence[Span]) -> list[float]:
    """Return the nanoseconds of each operation without those nested in it on the same track (a loop's body)."""
    spent = [operation.duration_ns for operation in operations]
    open_spans: dict[str, list[int]] = defaultdict(list)
    order = sorted(range(len(operations)), key=lambda i: (operations[i].start_ns, -operations[i].duration_ns))
    for index in order:
        operation, stack = operations[index], open_spans[operations[index].track]
        while stack and operations[stack[-1]].end_ns <= operation.start_ns:
            stack.pop()
        if stack:
            spent[stack[-1]] -= operation.duration_ns
        stack.append(index)
    return [max(0.0, value) for value in spent]


def stem(name: str) -> str:
    """Leave out the compiler's numbering: ``%copy.6`` and ``copy.12.clone`` are both ``copy``."""
    return re.sub(r"(\.\d+|\.clone|\.remat\d*)+$", "", name.lstrip("%").split(" = ")[0]) or name


def category(name: str) -> str:
    """Sort an operation by its name: matmul, cache update, copy, reduction, ...; ``other`` where it tells nothing."""
    lowered = name.lower()
    for kind, words in _CATEGORIES:
        if any(re.search(rf"(?<![a-z]){re.escape(word)}", lowered) for word in words):
            return kind
    return "elementwise" if "fusion" in lowered or "wrapped" in lowered else "other"
