"""Alerts of gates that fail on a project's default branch: of a suite's case in one environment, until one is kept.

One red run asks, as *open*; the next red one confirms. What somebody dismissed stays so until the gate is kept, and
only then may it be told anew. A gate that is checked no more, by two runs one after the other, is over, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from qwenperf.schema.records import Outcome, Status
from qwenperf.service.db.alerts import ACCEPTED, CONFIRMED, DISMISSED, OPEN, RESOLVED
from qwenperf.service.db.main_line import on_main
from qwenperf.service.db.tables import alerts, cases, runs, verdicts
from qwenperf.service.texts import words

GATE = "gate"
_CURRENT = (OPEN, CONFIRMED, ACCEPTED, DISMISSED)
_KEPT = (Outcome.PASS, Outcome.IMPROVED)
_Key = tuple[str, str]


def projects_in_alarm(connection: Connection) -> set[int]:
    """Return the projects in which a gate failed and was not kept since."""
    query = select(alerts.c.project_id).where(alerts.c.kind == GATE, alerts.c.state.in_(_CURRENT)).distinct()
    return set(connection.execute(query).scalars())


def follow(connection: Connection, run: Row[Any], at: int) -> None:
    """Raise, confirm and resolve alerts by the verdicts on ``run``, a run of the default branch with its owner.

    A run that is older than one which was looked at before says nothing of how things are now.
    """
    if _is_overtaken(connection, run):
        return
    current, said = _current(connection, run), _said(connection, run.id)
    for key, verdict in said.items():
        known = current.get(key)
        if verdict.outcome == Outcome.FAIL:
            _red(connection, run, verdict, known, at)
        elif verdict.outcome in _KEPT and known is not None:
            _change(connection, known, _CURRENT, {"state": RESOLVED, "updated_at": at})
    for key, known in current.items():
        if key not in said and _is_gone(connection, run, known):
            told = words(f"{known.gate} is checked no more: neither run {run.name} nor the one before has it")
            _change(connection, known, _CURRENT, {"state": RESOLVED, "summary": told, "updated_at": at})


def _change(connection: Connection, known: Row[Any], states: Sequence[str], values: Mapping[str, Any]) -> None:
    """Change an alert that is in one of some states still: somebody may have answered since it was read."""
    still = (alerts.c.id == known.id) & alerts.c.state.in_(states)
    connection.execute(update(alerts).where(still).values(**values))


def _is_gone(connection: Connection, run: Row[Any], known: Row[Any]) -> bool:
    """Say whether a gate is checked no more, by this run and the one before: one alone may be of chosen cases.

    They are whole runs of the suite, with cases that the red run had, too: parts of a suite say nothing of each other.
    """
    red = connection.execute(select(runs.c.suite, cases.c.name).join(cases).where(runs.c.id == known.run_id)).all()
    if run.suite not in {row.suite for row in red}:
        return False
    shared = select(cases.c.id).where(cases.c.run_id == runs.c.id, cases.c.name.in_({row.name for row in red}))
    last = select(runs.c.id).where(
        runs.c.project_id == run.project_id, runs.c.environment == run.environment, runs.c.suite == run.suite,
        runs.c.interrupted.is_(False), on_main(run.default_branch), shared.exists(),
        (runs.c.at < run.at) | ((runs.c.at == run.at) & (runs.c.id <= run.id)),
    )  # fmt: skip
    found = connection.execute(last.order_by(runs.c.at.desc(), runs.c.id.desc()).limit(2)).scalars().all()
    return len(found) == 2 and found[0] == run.id and all(_lacks(connection, number, known) for number in found)


def _lacks(connection: Connection, run_id: int, known: Row[Any]) -> bool:
    """Say whether a run does not have a gate, though nothing went wrong."""
    case = select(cases.c.status).where(cases.c.run_id == run_id, cases.c.name == known.case_name)
    if connection.execute(case).scalar() not in {None, Status.MEASURED}:
        return False
    mine = (verdicts.c.run_id == run_id) & (verdicts.c.case == known.case_name) & (verdicts.c.gate == known.gate)
    return connection.execute(select(verdicts.c.id).where(mine).limit(1)).first() is None


def _is_overtaken(connection: Connection, run: Row[Any]) -> bool:
    later = (runs.c.at > run.at) | ((runs.c.at == run.at) & (runs.c.id > run.id))
    query = select(runs.c.id).where(
        runs.c.project_id == run.project_id, later, runs.c.id != run.id, runs.c.judged.is_(True),
        runs.c.environment == run.environment, runs.c.suite == run.suite, on_main(run.default_branch),
    )  # fmt: skip
    return connection.execute(query.limit(1)).first() is not None


def _current(connection: Connection, run: Row[Any]) -> Mapping[_Key, Row[Any]]:
    """Return what is red of the run's suite: another may hold the same case to other budgets."""
    query = select(alerts).join(runs, runs.c.id == alerts.c.run_id).where(
        alerts.c.project_id == run.project_id, alerts.c.kind == GATE, alerts.c.environment == run.environment,
        alerts.c.state.in_(_CURRENT), runs.c.suite == run.suite,
    )  # fmt: skip
    return {(row.case_name, row.gate): row for row in connection.execute(query)}


def _said(connection: Connection, run_id: int) -> Mapping[_Key, Row[Any]]:
    """Return what gates said by case and gate, a failure before anything else."""
    found: dict[_Key, Row[Any]] = {}
    for row in connection.execute(select(verdicts).where(verdicts.c.run_id == run_id).order_by(verdicts.c.id)):
        known = found.get((row.case, row.gate))
        if known is None or known.outcome != Outcome.FAIL:
            found[row.case, row.gate] = row
    return found


def _red(connection: Connection, run: Row[Any], verdict: Row[Any], known: Row[Any] | None, at: int) -> None:
    told = words(f"{verdict.gate} fails in run {run.name}: {verdict.summary}")
    if known is None:
        values = {
            "project_id": run.project_id, "run_id": run.id, "kind": GATE, "state": OPEN, "owner": run.owner,
            "at": run.at, "summary": told, "gate": verdict.gate, "case_name": verdict.case,
            "environment": run.environment, "created_at": at, "updated_at": at,
            # What begins at one commit, or else at one run, has one cause more often than not.
            "family": run.commit or run.name,
        }  # fmt: skip
        connection.execute(insert(alerts).values(**values))
    elif known.state in {OPEN, CONFIRMED} and known.run_id != run.id:
        values = {"state": CONFIRMED, "summary": told, "updated_at": at}
        _change(connection, known, (OPEN, CONFIRMED), values)
