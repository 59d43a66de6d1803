"""Reads the values of a budget's table: numbers, limits and names, each checked where it stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from qwenperf.errors import ConfigError, nearest_advice
from qwenperf.gate.limits import Limit
from qwenperf.schema.metrics import Direction


def limit(name: str, value: Any, where: str, direction: Direction) -> Limit:
    """Read ``{ min = ..., max = ... }`` of the quantity ``name``.

    Raises:
      ConfigError: no number, an empty table, or a lone limit on the good side: it could only ever fail an improvement.
    """
    here = f"{where} {name}"
    entries = table(value, here)
    check_keys(entries, ("min", "max"), here)
    if not entries:
        raise ConfigError(f"{here} is empty.", advice="Give it a `min` or a `max`.")
    least, most = (number(entries[key], f"{here}.{key}") if key in entries else None for key in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"{here} has min {least:g} above max {most:g}.")
    if direction is Direction.HIGHER and least is None:
        raise ConfigError(f"{here} has only a max, and higher is better.", advice="Give it a `min`.")
    if direction is Direction.LOWER and most is None:
        raise ConfigError(f"{here} has only a min, and lower is better.", advice="Give it a `max`.")
    return Limit(metric=name, min=least, max=most, origin=where)


def check_known(name: Any, known: Iterable[str], here: str) -> None:
    """Refuse a value that is none of ``known``, with the nearest."""
    known = tuple(known)
    if name not in known:
        raise ConfigError(f"{here} is {name!r}.", advice=nearest_advice(str(name), known))


def check_keys(entries: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that is none of ``known``, with the nearest."""
    known = tuple(known)
    for key in entries:
        if key not in known:
            raise ConfigError(f"unknown key {key!r} in {where}.", advice=nearest_advice(key, known))


def table(value: Any, here: str) -> Mapping[str, Any]:
    """Return ``value`` where it is a table."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{here} is {value!r}, which is not a table.", advice="Write { min = ... } or { max = ... }.")
    return value


def number(value: Any, here: str) -> float:
    """Return ``value`` where it is a finite number."""
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ConfigError(f"{here} is {value!r:.60}, which is not a finite number.")
    return found


def positive(value: Any, here: str, most: float = math.inf) -> float:
    """Return ``value`` where it is a number above 0 and at most ``most``."""
    found = number(value, here)
    if not 0 < found <= most:
        raise ConfigError(
            f"{here} is {value!r}, which is not above 0" + (f" and at most {most:g}." if most < math.inf else ".")
        )
    return found
