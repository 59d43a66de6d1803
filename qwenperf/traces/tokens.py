"""A trace's summary per token, whatever version of qwenperf wrote it: what two of them are compared by."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qwenperf.errors import RecordError


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation: what it is, and its time and runs per token."""

    name: str
    program: str = ""
    category: str = ""
    op_name: str = ""
    source: str = ""
    shape: str = ""
    reads: str = ""
    seconds: float = 0.0
    count: float = 0.0

    def told(self) -> str:
        """Say in a few words what it works on and where it comes from."""
        where = self.source or self.op_name
        words = (self.shape, f"of {self.reads}" if self.reads else "", f"from {where}" if where else "")
        return " ".join(filter(None, words))


@dataclass(frozen=True, kw_only=True)
class PerToken:
    """Seconds per token of typical steps: ``step_s`` is ``rows``, ``rest_s`` (operations not listed) and ``gap_s``.

    ``slow_s`` is what a few slow steps would add to that; ``waited`` is what the host did in gaps.
    """

    step_s: float
    gap_s: float
    slow_s: float
    rest_s: float
    rows: tuple[Row, ...]
    categories: Mapping[str, float] = field(default_factory=dict)
    waited: tuple[tuple[str, float], ...] = ()


def per_token(summary: Any) -> PerToken:
    """Read a ``trace_summary``.

    Raises:
      RecordError: it is none, or tells of no step.
    """
    if not isinstance(summary, Mapping):
        raise RecordError("there is no summary of a trace.", advice="Run without --no-trace.")
    try:
        return _read(summary)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise RecordError(f"the summary of a trace is not what this version reads: {error}.") from error


def _read(summary: Mapping[str, Any]) -> PerToken:
    # A trace without annotated steps is told of as one step.
    step_s = [_seconds(one) for one in summary["step_s"]] or [_seconds(summary.get("typical_s", 0.0))]
    if not sum(step_s):
        raise RecordError("the trace shows neither steps nor operations.", advice="Take it again; see docs/traces.md.")
    tokens_per_step = max(1, int(summary.get("tokens_per_step") or 1))
    old = "typical_s" not in summary
    typical_s = sum(step_s) if old else _seconds(summary["typical_s"])
    tokens = tokens_per_step * (len(step_s) if old else max(1, int(summary["typical_steps"])))
    gap_s = _seconds(summary["host_gap_s"] if old else summary["host"]["gap_s"])
    # Before there were shares of an instant, time was of all threads together: here it is scaled to the busy time.
    listed = [(row, _seconds(row["time_s"] if old else row["wall_s"])) for row in _rows(summary)]
    total = sum(seconds for _, seconds in listed) or 1.0
    scale = max(0.0, typical_s - gap_s) / total if old else 1.0
    rows = tuple(_row(row, seconds * scale / tokens, tokens) for row, seconds in listed)
    return PerToken(
        step_s=typical_s / tokens,
        gap_s=gap_s / tokens,
        slow_s=statistics.fmean(step_s) / tokens_per_step - typical_s / tokens,
        rest_s=(typical_s - gap_s) / tokens - sum(row.seconds for row in rows),
        rows=rows,
        categories=_categories(summary, rows, tokens),
        waited=_waited(summary, tokens),
    )


def _rows(summary: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [row for row in summary["operations"] if isinstance(row, Mapping)]


def _row(row: Mapping[str, Any], seconds: float, tokens: int) -> Row:
    words = {name: str(row.get(name) or "") for name in ("program", "category", "op_name", "source", "shape", "reads")}
    return Row(name=str(row["name"]), seconds=seconds, count=_seconds(row.get("count", 0)) / tokens, **words)


def _categories(summary: Mapping[str, Any], rows: Sequence[Row], tokens: int) -> dict[str, float]:
    found = summary.get("categories")
    if isinstance(found, Mapping):
        return {str(name): _seconds(one["wall_s"]) / tokens for name, one in found.items()}
    added: dict[str, float] = {}
    for row in rows:
        added[row.category] = added.get(row.category, 0.0) + row.seconds
    return added


def _waited(summary: Mapping[str, Any], tokens: int) -> tuple[tuple[str, float], ...]:
    host = summary.get("host")
    doing = host.get("doing", []) if isinstance(host, Mapping) else []
    return tuple((str(one["name"]), _seconds(one["time_s"]) / tokens) for one in doing)


def _seconds(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no time")
    return number
