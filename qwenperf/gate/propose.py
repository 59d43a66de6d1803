"""Writes budgets from a run: what was measured, with the room that its kind of metric needs."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterator, Mapping

from qwenperf.gate.budget_set import COMPILER_SIZES
from qwenperf.gate.environment import environment_class
from qwenperf.gate.limits import reading
from qwenperf.gate.throughput import find_rung
from qwenperf.gate.verdict import worst
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import CaseRecord, Metric, Outcome, RunRecord, Status

HEADROOM = 0.20
"""Room for timed metrics, which differ from run to run, and for what another compiler version decides otherwise.

Chosen, not measured. Counts and sizes that our own code decides get none.
"""

METRICS = (
    "decode_tokens_per_s",
    "ttft_s",
    "compiles_cold",
    "dispatches_per_token",
    "kv_cache_allocated_bytes",
    "temp_bytes",
    "peak_bytes",
)
"""What gets a budget: the speed people ask about, and the facts about the program that explain it."""

_COMPILER_FACTS = (*COMPILER_SIZES, "compiles_cold")

BASE_RUNG = "naive"


def propose(run: RunRecord) -> str:
    """Return TOML text of budgets that ``run`` itself keeps.

    A case that was not measured or that a gate failed is left out with a comment: a budget must not bless what is
    broken. Reference rungs get none.
    """
    peers = {case.id: case for case in run.cases}
    parts = [f"# Proposed from run {_comment(run.id)}: timed limits and compiler facts with {HEADROOM:.0%} of room."]
    for case in peers.values():
        if case.spec.get("reference"):
            continue
        reason = _unfit(case)
        parts.append(
            f"# {_comment(case.id)} left out: {reason}"
            if reason
            else _table(case, peers, environment_class(run.environment))
        )
    return "\n\n".join(parts) + "\n"


def _unfit(case: CaseRecord) -> str:
    if case.status is not Status.MEASURED:
        return case.status.value.replace("_", " ")
    if worst(verdict.outcome for verdict in case.verdicts) is Outcome.FAIL:
        return ", ".join(verdict.gate for verdict in case.verdicts if verdict.outcome is Outcome.FAIL) + " failed"
    return "" if any(name in case.metrics for name in METRICS) else "nothing to set a budget on"


def _table(case: CaseRecord, peers: Mapping[str, CaseRecord], environment: str) -> str:
    lines = [f"[tool.qwenperf.budgets.{_quote(glob.escape(case.id))}]", f"environment = {_quote(environment)}"]
    lines += [f"{name} = {_limit(name, case.metrics[name])}" for name in METRICS if name in case.metrics]
    return "\n".join([*lines, *_relative(case, peers)])


def _limit(name: str, metric: Metric) -> str:
    """Return a limit that the run keeps, and the next one too unless it is worse by more than the room."""
    least, seen = metric.direction is Direction.HIGHER, reading(metric)
    bound = metric.value
    if metric.kind is Kind.TIMED and least:
        bound = _rounded(min(bound * (1 - HEADROOM), seen.least), up=False)
    elif metric.kind is Kind.TIMED:
        bound = _rounded(max(bound * (1 + HEADROOM), seen.most), up=True)
    elif name in _COMPILER_FACTS:
        bound = math.ceil(bound * (1 + HEADROOM))
    return f"{{ {'min' if least else 'max'} = {_number(bound)} }}"


def _relative(case: CaseRecord, peers: Mapping[str, CaseRecord]) -> Iterator[str]:
    """Yield the limits that hold on any machine."""
    seen, peer = case.metrics.get("decode_tokens_per_s"), find_rung(case, BASE_RUNG, peers)
    base = peer.metrics.get("decode_tokens_per_s") if peer else None
    if seen and base and min(reading(seen).low, reading(base).low) > 0:
        ratio = reading(seen).over(reading(base))
        factor = _rounded(min((1 - HEADROOM) * ratio.value, ratio.least), up=False)
        yield f"min_times = {{ rung = {_quote(BASE_RUNG)}, factor = {_number(factor)} }}"


def _rounded(value: float, *, up: bool) -> float:
    """Round to 3 digits, away from what was measured."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return float(f"{(math.ceil if up else math.floor)(value / step) * step:.3g}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    # What JSON leaves as it is, TOML wants escaped: DEL and other characters that nobody sees.
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


def _comment(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
