"""CUDA graphs in a trace: what runs inside one is not told apart, because XLA launches a list of operations at once.

Seen as one operation (``command_buffer``, or ``CudaGraphExec:2`` where the profiler names the graph), or as kernels
that name no operation while the host launches graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

CATEGORY = "cuda graph"
FLAG = "--xla_gpu_enable_command_buffer="
"""With no value it turns graphs off: every operation is launched by itself, and shown by itself."""

LAUNCH = "cuGraphLaunch"
_NAMES = re.compile(r"%?(?:command_buffer|CudaGraphExec)(?![a-z_])")
_MOVES = re.compile(r"mem(?:cpy|set)", re.IGNORECASE)


def is_graph(name: str) -> bool:
    """Say whether an operation of this name stands for a whole graph."""
    return _NAMES.match(name) is not None


def is_hidden(name: str, *, named: bool, launches: int) -> bool:
    """Say whether a device's event is of a graph: by its name, or as a kernel of no operation while graphs run."""
    return is_graph(name) or (not named and launches > 0 and _MOVES.match(name) is None)


def told(rows: Iterable[Mapping[str, Any]], launches: int) -> dict[str, Any] | None:
    """Return how many graphs were launched and what they took of the device's busy time; ``None`` without any."""
    every = list(rows)
    hidden = sum(row["wall_s"] for row in every if row["category"] == CATEGORY)
    busy = sum(row["wall_s"] for row in every)
    return {"launches": launches, "wall_s": hidden, "share": hidden / busy} if hidden > 0 else None


def advice() -> str:
    """Say how a trace shows what is inside."""
    return f"For a run that is traced, add {FLAG} to XLA_FLAGS; its times are not those of a run without it."
