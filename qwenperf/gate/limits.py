"""A limit on one metric, and what a reading says about it: kept, broken, or too noisy to tell."""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf import units
from qwenperf.schema.metrics import Kind, lookup
from qwenperf.schema.records import Metric, Outcome


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The least and the most that ``metric`` may be, in the registry's unit. ``origin`` is the budget that says so."""

    metric: str
    min: float | None = None
    max: float | None = None
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A value with the range that noise leaves open; a deterministic one has none."""

    value: float
    low: float
    high: float

    def over(self, other: Reading) -> Reading:
        """Return the quotient, its range as wide as both ranges allow."""
        return Reading(value=self.value / other.value, low=self.low / other.high, high=self.high / other.low)


@dataclass(frozen=True, kw_only=True)
class Check:
    """What one limit says: an outcome and a line for people."""

    outcome: Outcome
    text: str


def reading(metric: Metric) -> Reading:
    """Return the value and its interval; without an interval the range of the samples."""
    if metric.kind is Kind.DETERMINISTIC:
        return Reading(value=metric.value, low=metric.value, high=metric.value)
    low, high = metric.interval or (
        min(metric.samples, default=metric.value),
        max(metric.samples, default=metric.value),
    )
    return Reading(value=metric.value, low=min(low, metric.value), high=max(high, metric.value))


def check(limit: Limit, metric: Metric) -> Check:
    """Compare ``metric`` with ``limit``: broken only when the whole interval lies beyond it."""
    unit = lookup(limit.metric).unit
    return compare(limit.metric, reading(metric), unit, least=limit.min, most=limit.max)


def compare(name: str, seen: Reading, unit: str, *, least: float | None = None, most: float | None = None) -> Check:
    """Compare a reading with the least and the most it may be.

    A value that keeps the limit passes. One that breaks it fails when its whole range does, and is inconclusive when
    the range reaches back over the limit.
    """
    value = units.quantity(seen.value, unit)
    spread = f" (readings {units.quantity(seen.low, unit)} to {units.quantity(seen.high, unit)})"
    told = f"{name} {value}{spread if seen.low < seen.high else ''} is"
    if least is not None and seen.value < least:
        outcome = Outcome.FAIL if seen.high < least else Outcome.INCONCLUSIVE
        return Check(outcome=outcome, text=f"{told} below its budget of at least {units.quantity(least, unit)}")
    if most is not None and seen.value > most:
        outcome = Outcome.FAIL if seen.low > most else Outcome.INCONCLUSIVE
        return Check(outcome=outcome, text=f"{told} above its budget of at most {units.quantity(most, unit)}")
    bounds = [f"at least {units.quantity(least, unit)}"] if least is not None else []
    bounds += [f"at most {units.quantity(most, unit)}"] if most is not None else []
    return Check(outcome=Outcome.PASS, text=f"{name} {value} keeps its budget of {' and '.join(bounds)}")
