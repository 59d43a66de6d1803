"""Environment classes: machines whose absolute times may share a budget.

A class is coarse on purpose: a budget in seconds says for which kind of machine it was set, and is skipped elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

UNKNOWN = "unknown"


def environment_class(environment: Mapping[str, Any]) -> str:
    """Return the class of ``environment``: ``cpu-x86_64-2core``, ``gpu-nvidia-h100-x1``, ``tpu-v5-lite-x4``.

    CPUs are told apart by architecture and number of usable cores, accelerators by device kind and count. What is not
    recorded reads ``unknown``, so that a budget for a known class does not apply by accident.
    """
    platform = _slug(environment.get("platform"))
    if platform == "cpu":
        cores = environment.get("cores")
        return f"cpu-{_slug(environment.get('machine'), '_')}-{UNKNOWN if cores is None else f'{cores}core'}"
    kind = _slug(environment.get("device_kind")).removeprefix(f"{platform}-")
    return UNKNOWN if platform == UNKNOWN else f"{platform}-{kind}-x{environment.get('device_count', UNKNOWN)}"


def _slug(value: object, keep: str = "") -> str:
    """Return ``value`` in lower case with one dash for anything that is no letter or digit."""
    return re.sub(f"[^a-z0-9{keep}]+", "-", str(value or "").lower()).strip("-") or UNKNOWN
