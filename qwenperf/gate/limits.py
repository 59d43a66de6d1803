"""A limit on one metric, and what a reading says about it: kept, broken, or too noisy to tell.

A timed value is judged by its range, on both sides of the limit alike: wholly on the good side it passes, wholly on the
bad side it fails, and anything else is inconclusive, with the smallest difference that could have been told.
"""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf import units
from qwenperf.schema.metrics import Kind, lookup
from qwenperf.schema.records import Metric, Outcome

ENOUGH_COVERAGE = 0.9
"""An interval that holds the true value less often is no interval to judge by alone: 5 trials reach 0.9375."""

FEW, SINGLE = 1.2, 1.5
"""The factor by which a range is widened at both ends that covers too little, and where there is one reading only.

Chosen, not measured: a difference beyond it is called real without statistics.
"""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The least and the most that ``metric`` may be, in the registry's unit. ``origin`` is the budget that says so."""

    metric: str
    min: float | None = None
    max: float | None = None
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A value with the range that its readings span; ``doubt`` is the factor that too few readings leave open."""

    value: float
    low: float
    high: float
    doubt: float = 1.0

    @property
    def least(self) -> float:
        """The lowest that the true value may be."""
        return self.low / self.doubt if self.low > 0 else self.low * self.doubt

    @property
    def most(self) -> float:
        """The highest that the true value may be."""
        return self.high * self.doubt if self.high > 0 else self.high / self.doubt

    def over(self, other: Reading) -> Reading:
        """Return the quotient, its range as wide as both ranges allow."""
        return Reading(
            value=self.value / other.value,
            low=self.low / other.high,
            high=self.high / other.low,
            doubt=max(self.doubt, other.doubt),
        )


@dataclass(frozen=True, kw_only=True)
class Check:
    """What one limit says: an outcome and a line for people; ``skip`` is why there is none (see ``verdict``)."""

    outcome: Outcome
    text: str
    skip: str = ""
    smallest_effect: float | None = None


def reading(metric: Metric) -> Reading:
    """Return the value, its interval (without one the range of the samples), and the doubt that is left."""
    if metric.kind is Kind.DETERMINISTIC:
        return Reading(value=metric.value, low=metric.value, high=metric.value)
    low, high = metric.interval or (
        min(metric.samples, default=metric.value),
        max(metric.samples, default=metric.value),
    )
    return Reading(value=metric.value, low=min(low, metric.value), high=max(high, metric.value), doubt=_doubt(metric))


def _doubt(metric: Metric) -> float:
    count = len(metric.samples)
    # An interval of one reading has no width and covers nothing: its coverage is 0.
    if count <= 1 and (metric.interval is None or not metric.coverage):
        return SINGLE
    # The range of n readings holds the median with probability 1 - 2 / 2^n.
    coverage = 1 - 2.0 ** (1 - count) if metric.coverage is None else metric.coverage
    return 1.0 if coverage >= ENOUGH_COVERAGE else FEW


def check(limit: Limit, metric: Metric) -> Check:
    """Compare ``metric`` with ``limit``: kept or broken only when the whole range says so."""
    unit = lookup(limit.metric).unit
    return compare(limit.metric, reading(metric), unit, least=limit.min, most=limit.max)


def compare(name: str, seen: Reading, unit: str, *, least: float | None = None, most: float | None = None) -> Check:
    """Compare a reading with the least and the most it may be: pass, fail, or inconclusive where it spans one."""
    told = f"{name} {units.quantity(seen.value, unit)}"
    spread = f" (readings {units.quantity(seen.low, unit)} to {units.quantity(seen.high, unit)})"
    told += spread if seen.low < seen.high else ""
    if least is not None and seen.most < least:
        return Check(outcome=Outcome.FAIL, text=f"{told} is below its budget of at least {units.quantity(least, unit)}")
    if most is not None and seen.least > most:
        return Check(outcome=Outcome.FAIL, text=f"{told} is above its budget of at most {units.quantity(most, unit)}")
    if least is not None and seen.least < least:
        return _hidden(told, seen, f"at least {units.quantity(least, unit)}")
    if most is not None and seen.most > most:
        return _hidden(told, seen, f"at most {units.quantity(most, unit)}")
    bounds = [f"at least {units.quantity(least, unit)}"] if least is not None else []
    bounds += [f"at most {units.quantity(most, unit)}"] if most is not None else []
    text = f"{name} {units.quantity(seen.value, unit)} keeps its budget of {' and '.join(bounds)}"
    return Check(outcome=Outcome.PASS, text=text)


def _hidden(told: str, seen: Reading, bound: str) -> Check:
    """Say how far from the limit a value would have to be for these readings to tell."""
    ends = [seen.most / seen.value, seen.value / seen.least] if seen.value > 0 and seen.least > 0 else []
    effect = max(ends) - 1 if ends else None
    few = "" if seen.doubt == 1.0 else f", with {'one reading' if seen.doubt == SINGLE else 'so few readings'}"
    least = f": only a difference of {100 * effect:.0f}% or more would be seen{few}" if effect is not None else few
    text = f"{told} is too near its budget of {bound} to tell{least}"
    return Check(outcome=Outcome.INCONCLUSIVE, text=text, smallest_effect=effect)
