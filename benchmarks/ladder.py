"""History of the ladder: each rung on the small model, measured once and tracked in several quantities.

ASV's own timer does not know that JAX returns before the device is done, so that everything here is a ``track_``
of a number that the lab measured. ASV reads every number as "lower is better"; a metric for which the registry
says otherwise is turned round before it is handed over.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import CaseRecord
from qwenperf.workloads.case import ENGINES, Case, Workload
from qwenperf.workloads.suites import ladder

MODEL = "4x128"
WORKLOAD = Workload(prompt_length=16, new_tokens=20)
TRIALS = 5
CASE_LIMIT_S = 300
SETUP_LIMIT_S = CASE_LIMIT_S * len(ENGINES)

Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """One metric as ASV shows it. Raise ``version`` when its meaning changes: ASV then starts a new series."""

    name: str
    metric: str
    unit: str
    pretty_name: str
    version: str = "1"
    scale: float = 1.0

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the number for ASV, lower is better; NaN (no point in the graph) where nothing was measured."""
        number = measured.get(self.metric, math.nan)
        if lookup(self.metric).direction is Direction.HIGHER:
            number = 1.0 - number
        return number * self.scale


TRACKED = (
    Tracked(name="ms_per_token", metric="tpot_s", unit="ms", pretty_name="Time per token", scale=1e3),
    Tracked(name="ttft", metric="ttft_s", unit="ms", pretty_name="Time to first token", scale=1e3),
    Tracked(name="compile_seconds", metric="compile_s", unit="s", pretty_name="Compile time"),
    Tracked(name="steady_compiles", metric="compiles_steady", unit="compiles", pretty_name="Compiles after warm-up"),
    Tracked(name="cache_bytes", metric="kv_cache_allocated_bytes", unit="bytes", pretty_name="KV cache"),
    Tracked(name="tokens_unequal", metric="tokens_equal", unit="share", pretty_name="Tokens after a divergence"),
)


class Ladder:
    """All rungs on one model and workload."""

    params = (list(ENGINES),)
    param_names = ("engine",)
    timeout = 60

    def setup_cache(self) -> Values:
        """Measure each rung once, in a process of its own; every benchmark reads from here."""
        return measure(ladder(MODEL, WORKLOAD, trials=TRIALS, time_limit_s=CASE_LIMIT_S))

    setup_cache.timeout = SETUP_LIMIT_S


def _track(tracked: Tracked) -> Callable[[Any, Values, str], float]:
    def track(_self: Ladder, values: Values, engine: str) -> float:
        return tracked.value(values[engine])

    track.unit = tracked.unit
    track.version = tracked.version
    track.pretty_name = f"{tracked.pretty_name} ({MODEL}, {WORKLOAD.label})"
    return track


for _tracked in TRACKED:
    setattr(Ladder, f"track_{_tracked.name}", _track(_tracked))


def measure(cases: tuple[Case, ...]) -> dict[str, dict[str, float]]:
    """Measure ``cases`` and return metric values by engine.

    Raises:
      RuntimeError: a case or a window of it gave no measurement; a history with silent gaps is worse than a failed run.
    """
    from qwenperf.lab.options import Options
    from qwenperf.lab.run_cases import new_run, run_cases
    from qwenperf.lab.run_folder import create_run_folder

    with tempfile.TemporaryDirectory(prefix="qwenperf-asv-") as folder:
        run_folder = create_run_folder(Path(folder), datetime.now(UTC))
        run = new_run(run_folder, "asv", cases, {})
        run = run_cases(run, cases, folder=run_folder, options=Options(roofline=False), listener=_Silent())
    return numbers(run.cases)


def numbers(records: Iterable[CaseRecord]) -> dict[str, dict[str, float]]:
    """Return metric values by engine.

    Raises:
      RuntimeError: a case was not measured, or one of its windows is void.
    """
    records = tuple(records)
    gaps = [f"{record.id}: {why}" for record in records for why in _gaps(record)]
    if gaps:
        raise RuntimeError("; ".join(gaps))
    return {
        record.spec["engine"]: {name: metric.value for name, metric in record.metrics.items()} for record in records
    }


def _gaps(record: CaseRecord) -> tuple[str, ...]:
    """Say why a record has not every number: a void window leaves its metrics out."""
    if record.status != "measured":
        return (str(record.error),)
    return tuple(f"a void window: {void}" for void in record.evidence.voids)


class _Silent:
    """ASV shows its own progress."""

    def case_started(self, case: Case, number: int, total: int) -> None: ...

    def phase(self, case: Case, name: str) -> None: ...

    def case_ended(self, record: CaseRecord) -> None: ...
