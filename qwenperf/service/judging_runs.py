"""Looks at each run once after it arrived: a branch's beside its fork point, the default branch's for red gates.

A gate that fails on the default branch is an alert; one that fails on another is its run's verdict and nobody's alert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, update

from qwenperf.gate.verdict import worst
from qwenperf.schema.records import Outcome, Verdict
from qwenperf.service.arrivals import verdict_values
from qwenperf.service.bugs import Told
from qwenperf.service.context import Service
from qwenperf.service.db import gate_alerts, github, main_line
from qwenperf.service.db.projects import charge
from qwenperf.service.db.runs import keep_verdicts
from qwenperf.service.db.tables import runs as table
from qwenperf.service.judging_fork import fork_verdicts, read_forked

_AT_ONCE = 200


def judge_arrived(service: Service) -> int:
    """Look at some of the runs that nobody has looked at yet, and return how many.

    Raises:
      ServiceUnavailableError: the database cannot be reached.
    """
    with service.database.read() as connection:
        rows = main_line.unjudged(connection, _AT_ONCE)
    straight = [row for row in rows if not row.fork_point]
    if straight:
        follow = partial(_follow, found=straight, at=service.clock())
        _guarded(service, straight, lambda: service.database.write(follow))
    for row in rows:
        if row.fork_point:
            _guarded(service, [row], partial(_compare, service, row))
    return len(rows)


def _guarded(service: Service, found: Sequence[Row[Any]], work: Any) -> None:
    """Do ``work``; a bug in it is told, and the runs are left as they came: others must not wait for them."""
    with Told("bug in judging run %s and %d others", found[0].name, len(found) - 1):
        work()
        return
    service.database.write(partial(main_line.claim, found=found))


def _follow(connection: Connection, *, found: Sequence[Row[Any]], at: int) -> None:
    """Let alerts of gates follow the runs of default branches, in the order in which they came."""
    alarmed = gate_alerts.projects_in_alarm(connection)
    quiet: list[Row[Any]] = []
    for row in found:
        is_red = row.outcome == Outcome.FAIL
        if not main_line.is_on_main(row, row.default_branch) or not (is_red or row.project_id in alarmed):
            quiet.append(row)
            continue
        # Writers of one project take turns: each sees the alerts of the others.
        charge(connection, row.project_id, 0)
        if main_line.claim(connection, [row]):
            gate_alerts.follow(connection, row, at)
        if is_red:
            alarmed.add(row.project_id)
    if quiet:
        main_line.claim(connection, quiet)


def _compare(service: Service, row: Row[Any]) -> None:
    """Keep what the fork point says of a run, with the verdicts that it brought."""
    with service.database.read() as connection:
        found = read_forked(connection, row)
    service.database.write(partial(_keep, row=row, said=fork_verdicts(found), at=service.clock()))


def _keep(connection: Connection, *, row: Row[Any], said: Mapping[str, Verdict], at: int) -> None:
    if not main_line.claim(connection, [row]):
        return
    values = [value for case, verdict in said.items() for value in verdict_values(case, [verdict])]
    keep_verdicts(connection, values, project_id=row.project_id, run_id=row.id)
    before = [Outcome(row.outcome)] if row.outcome else []
    outcome = str(worst([*before, *(verdict.outcome for verdict in said.values())]) or "")
    connection.execute(update(table).where(table.c.id == row.id).values(outcome=outcome))
    if outcome != row.outcome:
        github.tell_again(connection, row.id, at)
