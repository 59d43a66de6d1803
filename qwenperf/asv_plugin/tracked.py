"""Which numbers ASV tracks, and how it is told what they mean.

ASV reads every number as "lower is better". A share is turned round (one minus it) before it is handed over; a rate is
*shown*: it has a graph, its name starts with ``shown_`` and its ``direction`` is written into ``benchmarks.json``, by
which ``publishing`` keeps ASV's judgement away from it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from qwenperf.errors import UsageError
from qwenperf.schema.metrics import Direction, lookup

Suite = TypeVar("Suite", bound=type)
Values = Mapping[str, Mapping[str, float]]
"""Metric values by label of a case."""

SHOWN = "shown_"


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """One metric as ASV shows it.

    Attributes:
      name: what follows ``track_``, and ``shown_`` for rates.
      metric: its name in the registry, which says unit and direction.
      unit: as ASV prints it.
      pretty_name: the title of its page.
      version: raise it when the meaning changes, and ASV starts a new series. Moving or rewriting code never does.
      scale: what the metric is multiplied by to be in ``unit``.
    """

    name: str
    metric: str
    unit: str
    pretty_name: str
    version: str = "1"
    scale: float = 1.0

    @property
    def turned(self) -> bool:
        """Whether the number is one minus the metric: a share that rises when it improves."""
        definition = lookup(self.metric)
        return definition.direction is Direction.HIGHER and definition.unit == "ratio"

    @property
    def direction(self) -> Direction:
        """Which way the number improves that ASV gets."""
        return Direction.LOWER if self.turned else lookup(self.metric).direction

    @property
    def function(self) -> str:
        """The name of the benchmark's method."""
        return f"track_{SHOWN if self.direction is Direction.HIGHER else ''}{self.name}"

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the number for ASV; NaN (no point in the graph) where nothing was measured."""
        number = measured.get(self.metric, math.nan)
        return (1.0 - number if self.turned else number) * self.scale


TRACKED = (
    Tracked(name="ms_per_token", metric="tpot_s", unit="ms", pretty_name="Time per token", scale=1e3),
    Tracked(name="tokens_per_s", metric="decode_tokens_per_s", unit="tokens/s", pretty_name="Tokens per second"),
    Tracked(name="ttft", metric="ttft_s", unit="ms", pretty_name="Time to first token", scale=1e3),
    Tracked(name="compile_seconds", metric="compile_s", unit="s", pretty_name="Compile time"),
    Tracked(name="steady_compiles", metric="compiles_steady", unit="compiles", pretty_name="Compiles after warm-up"),
    Tracked(name="cache_bytes", metric="kv_cache_allocated_bytes", unit="bytes", pretty_name="KV cache"),
    Tracked(name="tokens_unequal", metric="tokens_equal", unit="share", pretty_name="Tokens after a divergence"),
)
"""What is worth a graph for any engine."""


def tracks(
    labels: Iterable[str], tracked: Iterable[Tracked] = TRACKED, *, param: str = "engine", title: str = ""
) -> Callable[[Suite], Suite]:
    """Give a class a benchmark for each of ``tracked``, over the cases ``labels``; ``title`` is added to their names.

    The class has a ``setup_cache`` of its own that returns ``measure(cases)``: ASV calls it once for all of them, and
    tells the caches of two classes apart by the line where that method stands.

    Raises:
      UsageError: the class has no ``setup_cache`` of its own.
    """
    labels, tracked = tuple(labels), tuple(tracked)

    def decorate(suite: Suite) -> Suite:
        if "setup_cache" not in vars(suite):
            raise UsageError(
                f"{suite.__name__} has no setup_cache of its own.",
                advice="Write one that returns measure(cases): an inherited one is shared by all who inherit it.",
            )
        suite.params, suite.param_names = (list(labels),), (param,)  # type: ignore[attr-defined]
        if not hasattr(suite, "timeout"):
            suite.timeout = 60  # type: ignore[attr-defined]
        for one in tracked:
            setattr(suite, one.function, _method(one, title))
        return suite

    return decorate


def _method(tracked: Tracked, title: str) -> Callable[[Any, Values, str], float]:
    def track(_self: Any, values: Values, label: str) -> float:
        return tracked.value(values.get(label, {}))

    attributes = {
        "unit": tracked.unit,
        "version": tracked.version,
        "pretty_name": f"{tracked.pretty_name} ({title})" if title else tracked.pretty_name,
        "direction": str(tracked.direction),
        "metric": tracked.metric,
        # ASV shows it as the benchmark's code; this function is the same for all.
        "pretty_source": f"{tracked!r}\n\n{inspect.getsource(Tracked.value)}",
    }
    for name, value in attributes.items():
        setattr(track, name, value)
    track.__name__ = tracked.function
    return track
