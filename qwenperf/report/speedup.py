"""What the optimised rung buys over the naive one, steady and cold, and the time saved: one line a group of cases."""

from __future__ import annotations

from collections.abc import Iterator

from qwenperf import units
from qwenperf.schema.records import CaseRecord, RunRecord

BASE_RUNG = "naive"
BEST_RUNG = "cached"


def value(case: CaseRecord, name: str) -> float | None:
    """Return the value of a metric, ``None`` where it was not measured."""
    metric = case.metrics.get(name)
    return None if metric is None else metric.value


def speedup_lines(run: RunRecord) -> Iterator[str]:
    """Yield one line for each model and workload that has both rungs; always says which ratio is which."""
    rungs: dict[str, dict[str, CaseRecord]] = {}
    for case in run.cases:
        group = f"{case.spec.get('model')}/{case.spec.get('workload')}"
        rungs.setdefault(group, {})[str(case.spec.get("engine"))] = case
    for found in rungs.values():
        if BASE_RUNG in found and BEST_RUNG in found:
            yield from _line(found[BASE_RUNG], found[BEST_RUNG])


def _line(base: CaseRecord, best: CaseRecord) -> Iterator[str]:
    speeds = value(best, "decode_tokens_per_s"), value(base, "decode_tokens_per_s")
    colds = value(base, "cold_request_s"), value(best, "cold_request_s")
    if None in speeds or None in colds:
        return
    steady, cold = speeds[0] / speeds[1], colds[0] / colds[1]  # type: ignore[operator]  # None was ruled out above
    saved = colds[0] - colds[1]  # type: ignore[operator]
    yield (
        f"{BEST_RUNG} over {BASE_RUNG}: {units.significant(steady)}x steady decode, {units.significant(cold)}x cold, "
        f"{units.seconds(saved)} of {units.seconds(colds[0] or 0)} saved"
    )
