"""Runs that were one: the shards of a job put together again. Pure; nothing is averaged and nothing is chosen.

What one run can be is what one commit, one suite and one kind of machine gave. A case that two shards measured is a
conflict, unless both say the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from qwenperf.errors import UsageError
from qwenperf.gate.differences import environment_differences
from qwenperf.schema.codec import dumps
from qwenperf.schema.hints import show
from qwenperf.schema.records import CaseRecord, Finding, RunRecord, Status
from qwenperf.store.rows import moment

_MOST = 5


def merge_runs(runs: Sequence[RunRecord]) -> RunRecord:
    """Return the run that several are parts of; unjudged as a whole, so that it is to be judged again.

    The order of the runs does not matter, and the same runs make the same run: its id is made from theirs.

    Raises:
      UsageError: they are not parts of one run, or say two things of one case; names the runs and what differs.
      RecordError: a run without a time.
    """
    if not runs:
        raise UsageError("no run to merge.", advice="Name the folders of two or more.")
    parts = sorted(_distinct(runs), key=lambda run: (moment(run.created_at, f"{run.id}: created_at"), run.id))
    # A shard whose first process never started knows of no environment.
    first = next((run for run in parts if run.environment), parts[0])
    for other in parts:
        _check_same(first, other)
    cases = _cases(parts)
    declared = tuple(dict.fromkeys(name for run in parts for name in run.declared))
    order = {name: place for place, name in enumerate(declared)}
    return replace(
        first,
        id=_id(parts),
        created_at=parts[0].created_at,
        declared=declared,
        cases=tuple(sorted(cases, key=lambda case: order.get(case.id, len(order)))),
        findings=tuple(_findings(parts)),
        interrupted=any(run.interrupted for run in parts),
        extra={**first.extra, "merged": [run.id for run in parts]},
    )


def _id(parts: Sequence[RunRecord]) -> str:
    """Return an id that sorts by time and is the same for the same runs."""
    digest = hashlib.sha256("".join(dumps(run) for run in parts).encode()).hexdigest()
    began = datetime.fromtimestamp(moment(parts[0].created_at), UTC)
    return f"{began:%Y%m%dT%H%M%SZ}-m{digest[:6]}"


def _distinct(runs: Sequence[RunRecord]) -> Iterator[RunRecord]:
    """Yield each run once, however often it was named."""
    return (run for place, run in enumerate(runs) if run not in runs[:place])


def _check_same(first: RunRecord, other: RunRecord) -> None:
    seen = {
        "commit": (_commit(first), _commit(other)),
        "suite": (first.suite, other.suite),
    }
    differing = [
        f"{name} is {show(a)} in {first.id} and {show(b)} in {other.id}" for name, (a, b) in seen.items() if a != b
    ]
    changed = environment_differences(first.environment, other.environment)
    differing += [
        line.replace("in base", f"in {first.id}").replace("in head", f"in {other.id}") for line in changed.values()
    ]
    if differing:
        shown = "; ".join(differing[:_MOST]) + (f"; and {len(differing) - _MOST} more" if differing[_MOST:] else "")
        advice = "Only runs of one commit and suite on one kind of machine are parts of one run."
        raise UsageError(f"not one run: {shown}.", advice=advice)


def _commit(run: RunRecord) -> tuple[Any, Any]:
    """Return what tells two trees of code apart."""
    return run.commit.get("sha"), bool(run.commit.get("dirty"))


def _cases(parts: Sequence[RunRecord]) -> Iterator[CaseRecord]:
    """Yield each case once.

    Raises:
      UsageError: two runs say two things of a case; names all such cases.
    """
    found: dict[str, tuple[str, CaseRecord]] = {}
    conflicts: list[str] = []
    for run in parts:
        for case in run.cases:
            run_before, before = found.get(case.id, ("", None))
            if before is None or before.status is Status.MISSING:
                found[case.id] = (run.id, case)
            elif case.status is not Status.MISSING and replace(before, verdicts=()) != replace(case, verdicts=()):
                conflicts.append(f"{case.id} ({run_before} and {run.id})")
    if conflicts:
        shown = ", ".join(conflicts[:_MOST]) + (f" and {len(conflicts) - _MOST} more" if conflicts[_MOST:] else "")
        raise UsageError(f"measured twice: {shown}.", advice="Leave out one of the runs; values are never mixed.")
    return (case for _, case in found.values())


def _findings(parts: Sequence[RunRecord]) -> Iterator[Finding]:
    """Yield what was remarked, once where two runs remark the same."""
    seen: list[Finding] = []
    for run in parts:
        for finding in run.findings:
            if finding not in seen:
                seen.append(finding)
                yield finding
