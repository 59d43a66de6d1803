"""What readers of other tools' files share: metrics that our registry does not know, and runs made of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.formats.place import Place, plain
from qwenperf.schema.metrics import REGISTRY, Direction, Kind
from qwenperf.schema.records import CaseRecord, Finding, Metric, RunRecord, Severity
from qwenperf.schema.times import utc

SOURCE = "source"
"""The key of a run that was another tool's: ``format`` and whatever else that format is written back from."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the caller knows of a run beside its file.

    Attributes:
      modified_at: when the file was last written, ISO 8601 with its zone; the last resort for the time of a run.
      at: when it was measured, where the caller says so; all times as ``moment`` writes them.
      commit: full hash of the commit that was measured, where the caller says so.
      committed_at: when that was made, where the caller says so.
      suite: a name for the run's suite, where the caller says so.
    """

    modified_at: str
    at: str = ""
    commit: str = ""
    committed_at: str = ""
    suite: str = ""


def metric(
    name: str,
    value: float,
    *,
    unit: str = "",
    direction: Direction = Direction.NONE,
    kind: Kind = Kind.TIMED,
    interval: tuple[float, float] | None = None,
    **more: Any,
) -> Metric:
    """Return one metric. A name of our own registry brings its unit, direction and kind; any other keeps the tool's."""
    known = REGISTRY.get(name)
    if known is not None:
        unit, direction, kind = known.unit, known.direction, known.kind
    return Metric(value=value, unit=unit, direction=direction, kind=kind, interval=interval, **more)


def make_run(
    told: Told,
    *,
    tool: str,
    place: Place,
    created_at: str = "",
    commit: Mapping[str, Any] | None = None,
    suite: str = "",
    environment: Mapping[str, Any] | None = None,
    cases: Iterable[CaseRecord] = (),
    findings: tuple[Finding, ...] = (),
    source: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Return the run that a file, or a part of it at ``place``, tells of. Its id follows from what it says.

    Raises:
      FormatError: the caller says another time or commit than the file; two results of one case.
    """
    _agree(place.source, "time", told.at, created_at)
    commit = commit_of(place.source, commit or {}, told)
    when = created_at or told.at or told.modified_at
    cases = tuple(cases)
    _refuse_twice(place, cases)
    return RunRecord(
        id=run_id(when, tool, place.value),
        created_at=when,
        suite=told.suite or suite or tool,
        environment=plain(environment or {}),
        commit=plain(commit),
        declared=tuple(case.id for case in cases),
        cases=cases,
        findings=findings if created_at or told.at else (*findings, _undated(place, when)),
        extra={SOURCE: {"format": tool, **plain(source or {})}},
    )


def run_id(created_at: str, tool: str, data: Any) -> str:
    """Return an id that sorts by time and is the same whenever the same data are read, 0 and 0.0 being the same."""
    floats = json.loads(json.dumps([tool, plain(data)]), parse_int=float)
    digest = hashlib.sha256(json.dumps(floats, sort_keys=True).encode()).hexdigest()[:6]
    return f"{datetime.fromisoformat(created_at).astimezone(UTC):%Y%m%dT%H%M%SZ}-{digest}"


def moment(text: str) -> str:
    """Return a time as ISO 8601 in UTC; one without a zone is in UTC, as these tools write it.

    Raises:
      ValueError: no time.
    """
    return utc(text).isoformat()


def time_of(run: RunRecord, source: str = "") -> str:
    """Return when a run was measured as ``moment`` does.

    Raises:
      FormatError: it says no time.
    """
    return _said_time(run.created_at, f"{source or f'run {run.id}'}: created_at")


def moment_at(place: Place) -> str:
    """Return the time at ``place`` as ``moment`` does; errors name the place."""
    try:
        return moment(place.text())
    except ValueError:
        raise place.wrong("a time in ISO 8601") from None


def moment_of_ms(place: Place) -> str:
    """Return milliseconds since 1970 at ``place`` as ISO 8601 in UTC; errors name the place."""
    try:
        return datetime.fromtimestamp(place.number() / 1000, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        raise place.wrong("a number of milliseconds since 1970") from None


def ms_of_moment(text: str, name: str) -> int:
    """Return ISO 8601 as milliseconds since 1970; a time without a zone is in UTC.

    Raises:
      FormatError: no time; ``name`` says whose.
    """
    return round(datetime.fromisoformat(_said_time(text, name)).timestamp() * 1000)


def ms_of(run: RunRecord) -> int:
    """Return when a run was measured in milliseconds since 1970; errors as ``time_of``."""
    return ms_of_moment(run.created_at, f"run {run.id}: created_at")


def _said_time(text: str, name: str) -> str:
    try:
        return moment(text)
    except ValueError:
        advice = "It is written like 2026-11-28T08:30:00+00:00."
        raise FormatError(f"{name} is {text!r}, which is no time.", advice=advice) from None


def source_of(run: RunRecord, tool: str) -> Mapping[str, Any]:
    """Return what ``tool``'s file said of this run beyond its cases; empty for runs that came from elsewhere."""
    source = run.extra.get(SOURCE, {})
    return source if isinstance(source, Mapping) and source.get("format") == tool else {}


def commit_of(source: str, said: Mapping[str, Any], told: Told) -> dict[str, Any]:
    """Return the commit that a file says, with what the caller says beside it.

    Raises:
      FormatError: they say two things.
    """
    commit = dict(said)
    for noun, key, value in (("commit", "sha", told.commit), ("time of the commit", "committed_at", told.committed_at)):
        _agree(source, noun, value, str(commit.get(key) or ""))
        if value:
            commit[key] = value
    return commit


def own_run(run: RunRecord, told: Told, source: str) -> RunRecord:
    """Return a run of ours with the commit and the suite that the caller says; errors as ``make_run``."""
    _agree(source, "time", told.at, time_of(run, source))
    return replace(run, commit=commit_of(source, run.commit, told), suite=told.suite or run.suite)


def _agree(source: str, noun: str, told: str, said: str) -> None:
    if told and said and told != said:
        raise FormatError(
            f"{source}: the file's own {noun} is {said}, and {told} was given.",
            advice=f"Leave the {noun} out: what a file says of itself is kept.",
        )


def _refuse_twice(place: Place, cases: tuple[CaseRecord, ...]) -> None:
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise place.fail(f"has two results of {case.id!r}", "Keep one of them, or give them names of their own.")
        seen.add(case.id)


def _undated(place: Place, when: str) -> Finding:
    return Finding(
        code="time-of-the-file",
        severity=Severity.NOTE,
        message=f"{place.source or 'the file'} has no time of measuring: {when}, when it was written, is taken.",
        advice="Say when with --at.",
    )
