"""What limits a question brings: a rate of ``at_least``, budgets that must be judged, and when nothing may be timed."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsFloat

from qwenperf.errors import EnvironmentUnfitError, UsageError, nearest_advice
from qwenperf.schema.records import CaseRecord

if TYPE_CHECKING:
    from qwenperf.gate.budget_set import CaseBudget

UNITS = ("tokens/s", "times", "of roofline")

WORKER = "PYTEST_XDIST_WORKER"

_SERIAL = "Deselect timed tests in a parallel run, or run them with -p no:xdist or -n0."


def check_unit(value: Any, unit: str, than: Any) -> None:
    """Refuse a rate that is none, and one whose unit and engines do not fit each other.

    Raises:
      UsageError: says what is missing or meant.
    """
    if isinstance(value, bool | str) or not isinstance(value, SupportsFloat) or not 0 < float(value) < math.inf:
        raise UsageError(f"at_least({value!r}, {unit!r}): that is no rate.", advice="Give a number above 0.")
    if unit not in UNITS:
        raise UsageError(f"at_least({value}, {unit!r}): unknown unit.", advice=nearest_advice(unit, UNITS))
    if (unit == "times") != (than is not None):
        needs = "needs than=, the engine to compare with" if than is None else "takes no than="
        raise UsageError(f"at_least({value}, {unit!r}) {needs}.")


def speed_budget(declared: CaseBudget, value: float, unit: str, peer: CaseRecord | None) -> CaseBudget:
    """Write the question as the budget that gate "throughput" reads, on top of what is declared anyway."""
    from qwenperf.gate import budget_set, limits, throughput

    if unit == "times" and peer is not None:
        return replace(declared, min_times=budget_set.Times(rung=str(peer.spec["engine"]), factor=value))
    if unit == "of roofline":
        return replace(declared, min_roofline_share=value)
    limit = limits.Limit(metric=throughput.METRIC, min=value, origin="at_least")
    return replace(declared, limits={**declared.limits, throughput.METRIC: limit})


def budgeted(budget: CaseBudget) -> tuple[str, ...]:
    """Return the gates that must judge, since something is declared for them."""
    from qwenperf.gate import scaling, shapes, throughput

    own = {throughput.METRIC: throughput.GATE, shapes.METRIC: shapes.GATE, scaling.METRIC: scaling.GATE}
    speed = budget.min_times is not None or budget.min_roofline_share is not None
    return (*(own.get(name, f"budget:{name}") for name in budget.limits), *((throughput.GATE,) if speed else ()))


def refuse_company() -> None:
    """Refuse to time beside other tests.

    Raises:
      EnvironmentUnfitError: pytest-xdist runs tests side by side.
    """
    __tracebackhide__ = True
    worker = os.environ.get(WORKER)
    if worker:
        raise EnvironmentUnfitError(
            f"not timed: pytest-xdist runs tests side by side (this is {worker}).", advice=_SERIAL
        )
