"""How quantities are written for people: one place, so that a table, a page and a message agree."""

from __future__ import annotations

import math

_BYTE_STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_SECOND_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """Write ``value`` with ``digits`` significant digits and no exponent: 12345 -> 12300."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}" if abs(value) < 1e15 else f"{value:.{digits}g}"


def seconds(value: float) -> str:
    """Write a duration given in seconds: 0.0123 -> ``12.3 ms``."""
    return _scaled(value, _SECOND_STEPS)


def age(value: float) -> str:
    """Write how long ago something was, given in seconds: 302400 -> ``3.5 days``."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours")):
        if value >= 2 * size:
            return f"{value / size:,.1f}".removesuffix(".0") + f" {unit}"
    return seconds(value)


def byte_count(value: float) -> str:
    """Write a size given in bytes, decimal prefixes: 717000000 -> ``717 MB``."""
    return _scaled(value, _BYTE_STEPS) if abs(value) >= 1e3 else f"{value:.0f} B"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{significant(value)} {steps[0][1]}"
    for size, unit in steps:
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    size, unit = steps[-1]
    return f"{significant(value / size)} {unit}"


def quantity(value: float | None, unit: str) -> str:
    """Write ``value`` in the registry's unit for people; ``None`` becomes ``-``."""
    if value is None:
        return "-"
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return byte_count(value)
    if unit == "ratio":
        return significant(value)
    if unit == "count":
        return f"{value:,.0f}" if float(value).is_integer() else significant(value)
    return f"{significant(value)} {unit}"
