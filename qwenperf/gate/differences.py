"""What differs between two sides, without judging it: fields of the environment, deterministic metrics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from qwenperf.schema.metrics import ROUNDING, Direction, Kind
from qwenperf.schema.records import Json, Metric

STABLE = (
    "cpu_model", "machine", "isa", "cores", "cpu_quota", "kernel", "governor", "python", "jax", "jaxlib", "libtpu",
    "platform", "device_kind", "device_count", "xla_flags", "x64", "matmul_precision", "debug_flags",
)  # fmt: skip
"""Fields in which two sides must agree before their times are compared. The package's own version may differ."""


def environment_differences(base: Json, head: Json) -> dict[str, str]:
    """Return a line for each stable field that differs, by its name."""
    return {
        name: f"{name} is {base.get(name)!r} in base and {head.get(name)!r} in head"
        for name in STABLE
        if base and head and base.get(name) != head.get(name)
    }


def environment_key(environment: Json) -> str:
    """Return 16 hexadecimal digits, equal where ``environment_differences`` finds none; ``""`` of no environment.

    Where another tool described the machine, none of our fields is there: then everything that it said counts.
    """
    known = {name: environment[name] for name in STABLE if environment.get(name) is not None}
    said = known or {name: value for name, value in environment.items() if name != "volatile"}
    if not said:
        return ""
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]


def incomparable(base: str, head: str) -> str:
    """Say why times of two environments, given by their keys, do not compare; empty where they do.

    One that nobody knows is like no other.
    """
    if not base or not head:
        return "one of them does not say where it ran"
    return "" if base == head else "they ran in different environments"


def lost_metrics(base: Mapping[str, Metric], head: Mapping[str, Metric]) -> list[str]:
    """Return the deterministic metrics with a direction that only base has."""
    return [name for name, one in base.items() if name not in head and _is_compared(name, one)]


def changed_metrics(base: Mapping[str, Metric], head: Mapping[str, Metric]) -> Iterator[tuple[str, Metric, Metric]]:
    """Yield deterministic metrics with a direction that both sides have and that differ."""
    for name, old in base.items():
        new = head.get(name)
        if new is not None and new.value != old.value and _is_compared(name, old):
            yield name, old, new


def _is_compared(name: str, one: Metric) -> bool:
    return one.kind is Kind.DETERMINISTIC and one.direction is not Direction.NONE and name not in ROUNDING
