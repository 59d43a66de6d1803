"""What the machine did while something was timed: load, and time stolen by other guests of its host. Linux only."""

from __future__ import annotations

import os
from pathlib import Path

_STAT = Path("/proc/stat")
_STEAL = 8
"""The column of ``/proc/stat``'s first line, the word ``cpu`` counted: see proc(5)."""


def steal_s(stat: Path = _STAT) -> float:
    """Return the seconds of all cores together that other guests have taken since boot; 0 where nobody counts."""
    try:
        with stat.open() as file:
            fields = file.readline().split()
        return int(fields[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def load() -> float | None:
    """Return the load average of the last minute; ``None`` where the system has none."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None
