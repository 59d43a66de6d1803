"""Verdicts on what whole runs say of a timed metric, such as compile seconds: decisions in, sentences out."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from qwenperf.gate.verdict import inconclusive
from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.stats.decision import Decision


def runs_verdict(metric: str, first: Decision, second: Decision | None = None) -> Verdict:
    """Return the verdict on ``metric`` of one case; what is worse counts once fresh runs, ``second``, agree."""
    text = _told(metric, first)
    data: dict[str, Any] = {"stage_1": _data(first), **({"stage_2": _data(second)} if second else {})}
    if first.outcome is Outcome.FAIL and (second is None or second.outcome is not Outcome.FAIL):
        reason = "not confirmed yet" if second is None else f"{second.pairs} fresh pairs of runs do not confirm it"
        return inconclusive(metric, f"{text}; {reason}", **data)
    if first.outcome is Outcome.INCONCLUSIVE:
        return inconclusive(metric, text, advice=f"{first.settle[:1].upper()}{first.settle[1:]}.", **data)
    told = f"{text}; confirmed by {second.pairs} fresh pairs of runs" if second is not None else text
    return Verdict(gate=metric, outcome=first.outcome, summary=told, data=data)


def _told(metric: str, decision: Decision) -> str:
    if not math.isfinite(decision.estimate):
        return f"{decision.pairs} pairs of runs are too few"
    worse = " worse by" if lookup(metric).direction is Direction.HIGHER else ""
    interval = f" ({decision.low:+.1%} to {decision.high:+.1%})" if math.isfinite(decision.high) else ""
    size = f"{metric}{worse} {decision.estimate:+.1%}{interval}"
    return f"{size} over {decision.pairs} pairs of runs, margin {decision.margin:.1%}"


def _data(decision: Decision) -> dict[str, object]:
    return {
        name: value if not isinstance(value, float) or math.isfinite(value) else None
        for name, value in asdict(decision).items()
    }
