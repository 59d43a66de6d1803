"""How many memories share the work of an engine: the roofline is of one accelerator, or of one whole host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


def devices_used(arrays: Iterable[Any] | None = None) -> int:
    """Return on how many devices the most widely spread array lies; by default of all arrays of this process.

    Devices that are parts of one host's CPU count once: they share its memory and its cores, all of which the roofline
    is measured with.
    """
    arrays = jax.live_arrays() if arrays is None else arrays
    return max((len({_memory(device) for device in array.sharding.device_set}) for array in arrays), default=1)


def _memory(device: Any) -> tuple[str, int]:
    return (device.platform, device.process_index if device.platform == "cpu" else device.id)
