"""How a case is measured, apart from what the case itself says. Plain data, so that a child process can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """Bounds and switches of one measurement.

    ``trials`` is how many steady requests are timed; ``steady_budget_s`` stops earlier, after at least two, so that a
    slow rung does not eat a suite's time, and ``steady_least_s`` goes on, up to ``trials_most``, where a few requests
    of a fast engine are over in milliseconds. ``trace_folder`` is the run's folder (``None``: no trace) and ``session``
    the trace's name in it; no trace is added to runs whose traces take ``trace_quota_bytes``. ``start_folder`` is where
    an earlier process left programs. ``requests_only`` is the case's own, see ``workloads.case``. ``logit_check`` and
    ``roofline`` may be turned off by callers who do not ask for them.
    """

    trials: int = 5
    trials_most: int = 25
    steady_budget_s: float = 20.0
    steady_least_s: float = 0.0
    trace_folder: str | None = None
    session: str = ""
    trace_steps: int = 8
    trace_max_bytes: int = 64 * MEGABYTE
    trace_deadline_s: float = 20.0
    trace_python: bool = False
    trace_quota_bytes: int = 4000 * MEGABYTE
    start_folder: str | None = None
    requests_only: bool = False
    logit_check: bool = True
    roofline: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; ``from_json`` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Options:
        """Read what ``to_json`` wrote."""
        return cls(**data)
