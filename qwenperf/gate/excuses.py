"""Failures that somebody answers for: a cost accepted in a commit, a case in quarantine until a day.

An excused verdict keeps its outcome and its numbers; it says who excused it and no longer decides the exit code. A
changed token, a case that no longer works, and a program that no longer compiles or fits are never excused: they are no
cost. As with budgets, a glob without ``@`` and a target is of cases that are measured and matches no
compiled program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from qwenperf.errors import ConfigError, nearest_advice
from qwenperf.gate.target_globs import is_of_programs
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord
from qwenperf.schema.records import Finding, Outcome, Severity, Verdict

ACCEPTED, QUARANTINED = "accepted", "quarantined"
TRAILER = "Qwenperf-Accept"
_NEVER = ("tokens", "inventory")
_NEVER_OF_PROGRAMS = ("compiles", "memory")
"""Gates of compiled programs; a comparison's ``compiles`` counts programs, which is a cost."""

_Record = TypeVar("_Record", ComparisonRecord, AotRecord)
_Case = TypeVar("_Case", ComparedCase, AotCase)


@dataclass(frozen=True, kw_only=True)
class Excuse:
    """For cases that ``pattern`` matches. ``until`` is the last day of a quarantine; an accepted cost has none."""

    pattern: str
    reason: str
    kind: str
    until: date | None = None

    def holds(self, today: date) -> bool:
        """Say whether it still counts."""
        return self.until is None or today <= self.until


def from_trailers(values: Iterable[str]) -> tuple[Excuse, ...]:
    """Read ``<case glob>: <reason>`` of commit trailers.

    Raises:
      ConfigError: no reason: an acceptance without one is a way to switch the gate off.
    """
    excuses = []
    for value in values:
        pattern, _, reason = (part.strip() for part in value.partition(": "))
        if not pattern or not reason:
            raise ConfigError(
                f"{TRAILER}: {value!r} gives no reason.", advice=f"Write {TRAILER}: <case glob>: <reason>"
            )
        excuses.append(Excuse(pattern=pattern, reason=reason, kind=ACCEPTED))
    return tuple(excuses)


def from_table(table: Mapping[str, Any], where: str = "[tool.qwenperf.quarantine]") -> tuple[Excuse, ...]:
    """Read ``"<case glob>" = { reason = "...", until = 2026-12-31 }`` of a project.

    Raises:
      ConfigError: a key is unknown, or reason or day is missing.
    """
    return tuple(_quarantine(pattern, entry, f'{where} "{pattern}"') for pattern, entry in table.items())


def _quarantine(pattern: str, entry: object, here: str) -> Excuse:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{here} is no table.", advice='Write { reason = "...", until = 2026-12-31 }.')
    for key in entry:
        if key not in {"reason", "until"}:
            raise ConfigError(f"unknown key {key!r} in {here}.", advice=nearest_advice(key, ("reason", "until")))
    reason, until = entry.get("reason"), entry.get("until")
    if not isinstance(reason, str) or not reason.strip():
        raise ConfigError(f"{here} has no reason.")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise ConfigError(
            f"{here} has no day until which it holds.", advice="Write until = 2026-12-31, without quotes."
        )
    return Excuse(pattern=pattern, reason=reason, kind=QUARANTINED, until=until)


def excuse(record: _Record, excuses: Sequence[Excuse], today: date) -> _Record:
    """Return the record with excused verdicts marked, and a finding for each quarantine that is over."""
    holding = [one for one in excuses if one.holds(today)]
    over: tuple[Finding, ...] = tuple(_over(one) for one in excuses if not one.holds(today))
    cases = tuple(_excused(case, holding) for case in record.cases)
    return replace(record, cases=cases, findings=(*record.findings, *over))


def _excused(case: _Case, excuses: Sequence[Excuse]) -> _Case:
    compiled = isinstance(case, AotCase)
    own = (one for one in excuses if is_of_programs(one.pattern) or not compiled)
    found = next((one for one in own if fnmatchcase(case.id, one.pattern)), None)
    if found is None:
        return case
    never = _NEVER_OF_PROGRAMS if compiled else _NEVER
    return replace(case, verdicts=tuple(_mark(verdict, found, never) for verdict in case.verdicts))


def _mark(verdict: Verdict, found: Excuse, never: Sequence[str]) -> Verdict:
    if verdict.outcome is not Outcome.FAIL or verdict.gate in never:
        return verdict
    until = f" until {found.until}" if found.until else ""
    told = f"{found.kind}{until}: {found.reason}"
    return replace(verdict, detail=(*verdict.detail, told), data={**verdict.data, "excused": told})


def is_excused(verdict: Verdict) -> bool:
    """Say whether somebody answers for a failure."""
    return "excused" in verdict.data


def _over(one: Excuse) -> Finding:
    return Finding(
        code="quarantine-over",
        severity=Severity.WARNING,
        message=f"the quarantine of {one.pattern!r} ended on {one.until} ({one.reason}): it counts again.",
        advice="Mend the case, or give it another day with a reason.",
    )
