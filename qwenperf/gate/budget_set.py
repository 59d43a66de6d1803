"""Which limits hold for a case in an environment.

A case takes every table whose glob matches its id. Of two tables that limit the same thing, one that is for this class
of environment (or for all) wins over one that is for another, then the one whose glob has more literal characters, then
the later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from qwenperf.gate.limits import Limit
from qwenperf.schema.metrics import Kind, lookup
from qwenperf.schema.records import Finding, Severity

COMPILER_SIZES = ("argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "peak_bytes")
"""Metrics that a compiler decides: the same program has other ones on another platform or version."""

TEST_MARK = "::"
"""What a glob has that is of cases of a pytest session: their ids begin with the test's."""


def matches(case_id: str, pattern: str) -> bool:
    """Say whether a glob matches an id. One of tests may also be an id as pytest writes it: ``::test_x[fast]/*``."""
    as_written = TEST_MARK in pattern and fnmatchcase(case_id, pattern.replace("[", "[[]"))
    return as_written or fnmatchcase(case_id, pattern)


@dataclass(frozen=True, kw_only=True)
class Times:
    """``metric`` must be at least ``factor`` times as good as on ``rung`` of the same model and workload."""

    rung: str
    factor: float
    metric: str = "decode_tokens_per_s"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One table: its case glob, its limits, and the glob of the environment class that its timed limits hold in."""

    pattern: str
    limits: tuple[Limit, ...] = ()
    environment: str | None = None
    min_times: Times | None = None
    min_roofline_share: float | None = None

    @property
    def specificity(self) -> int:
        """How many characters of the glob stand for themselves."""
        return sum(character not in "*?[]" for character in self.pattern)

    @property
    def is_of_tests(self) -> bool:
        """Whether the glob is of cases that tests measure (``test_x.py::test_y/...``): no run of a suite has them."""
        return TEST_MARK in self.pattern

    def is_for(self, environment: str) -> bool:
        """Say whether the table was set for the environment class ``environment``, or for all."""
        return self.environment is None or fnmatchcase(environment, self.environment)


@dataclass(frozen=True, kw_only=True)
class CaseBudget:
    """What holds for one case. ``outside`` says of each metric why its only limit does not hold here."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    min_times: Times | None = None
    min_roofline_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetSet:
    """Every table, in the order of the file."""

    budgets: tuple[Budget, ...] = ()

    def for_case(self, case_id: str, environment: str) -> CaseBudget:
        """Return what holds for the case ``case_id`` in the environment class ``environment``."""
        matching = [budget for budget in self.budgets if matches(case_id, budget.pattern)]
        # Tables for other classes come first: what they say of counts holds only where no table for here says any.
        matching.sort(key=lambda budget: (budget.is_for(environment), budget.specificity))
        limits: dict[str, Limit] = {}
        outside: dict[str, str] = {}
        times, share = None, None
        for budget in matching:
            for limit in budget.limits:
                if budget.is_for(environment) or _holds_outside(limit.metric, budget.environment or "", environment):
                    limits[limit.metric] = limit
                else:
                    outside[limit.metric] = _outside(budget, environment)
            times = budget.min_times or times
            share = share if budget.min_roofline_share is None else budget.min_roofline_share
        outside = {name: reason for name, reason in outside.items() if name not in limits}
        return CaseBudget(limits=limits, outside=outside, min_times=times, min_roofline_share=share)

    def unmatched(self, case_ids: Iterable[str]) -> tuple[Finding, ...]:
        """Return a finding for each glob that matches none of ``case_ids``: a typing error would never be noticed.

        Globs of tests are left out: only the pytest session that runs them can tell, by ``unmatched_of_tests``.
        """
        ids = tuple(case_ids)
        patterns = dict.fromkeys(budget.pattern for budget in self.budgets if not budget.is_of_tests)
        advice = "`qwenperf run --list` shows the cases."
        return tuple(_unmatched(pattern, ids, "", advice) for pattern in patterns if not _matches(pattern, ids))

    def unmatched_of_tests(self, case_ids: Iterable[str]) -> tuple[Finding, ...]:
        """Return a finding for each glob of tests that matches none of ``case_ids``, those of a pytest session."""
        ids = tuple(case_ids)
        patterns = dict.fromkeys(budget.pattern for budget in self.budgets if budget.is_of_tests)
        advice = "`--qwenperf-out` writes the cases."
        return tuple(
            _unmatched(pattern, ids, " of this session", advice) for pattern in patterns if not _matches(pattern, ids)
        )


def _holds_outside(metric: str, set_for: str, here: str) -> bool:
    """Say whether a limit holds on another class of machine too: nothing timed does, and counts and sizes do.

    The compiler's own sizes depend on the kind of processor that it compiles for, and on nothing else of the machine.
    """
    if lookup(metric).kind is Kind.TIMED:
        return False
    platforms = {set_for.partition("-")[0], here.partition("-")[0]}
    return metric not in COMPILER_SIZES or len(platforms) == 1 or "*" in platforms


def _outside(budget: Budget, environment: str) -> str:
    return f"set for {budget.environment!r} ({budget.pattern!r}), and this is {environment!r}"


def _matches(pattern: str, ids: Sequence[str]) -> bool:
    return any(matches(one, pattern) for one in ids)


def _unmatched(pattern: str, ids: Sequence[str], where: str, advice: str) -> Finding:
    near = get_close_matches(pattern, ids, n=1, cutoff=0.3)
    return Finding(
        code="budget-unmatched",
        severity=Severity.ERROR,
        message=f"the budget {pattern!r} matches no case{where}.",
        advice=f"The nearest case is {near[0]!r}." if near else advice,
        data={"pattern": pattern},
    )
