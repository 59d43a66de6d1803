"""Sets and removes one budget of a project at a time, with a reason, as people do. The API sets all of them at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.errors import UsageError
from qwenperf.gate.budget import parse
from qwenperf.service.auth import audit
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service
from qwenperf.service.db import projects
from qwenperf.service.problems import FieldError, in_field
from qwenperf.service.writing_json import compact
from qwenperf.service.writing_toml import lines

MOST_TABLES = 500
_ENVIRONMENT = "environment"
Tables = dict[str, Any]
"""Budgets by the glob of their cases: a table, or a list of tables, one a class of environments."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One table: for which cases, in which class of environments (empty: all), and its lines in TOML."""

    cases: str
    environment: str
    text: str


def listed(budgets: str) -> list[Budget]:
    """Return the budgets of a project, which keeps them as JSON."""
    return [
        Budget(cases=cases, environment=str(table.get(_ENVIRONMENT, "")), text=lines(table))
        for cases, table in _each(_read(budgets))
    ]


def set_budget(service: Service, identity: Identity, project: Row[Any], *, cases: str, text: str, reason: str) -> None:
    """Set the budget of some cases: it replaces that of the same cases in the same class of environments.

    Raises:
      FieldError: ``text`` is no table of limits.
    """
    with in_field("limits"):
        table = _table(text)
        parse({cases: table}, "the budgets")

    def changed(tables: Tables) -> Tables:
        held = [one for name, one in _each(tables) if name == cases]
        place = next((place for place, one in enumerate(held) if _alike(one, table)), len(held))
        held[place : place + 1] = [table]
        found = _joined(tables, cases, held)
        if sum(1 for _ in _each(found)) > MOST_TABLES:
            raise FieldError("cases", f"a project has at most {MOST_TABLES} budgets.", advice="Use wider globs.")
        return found

    detail = {"limits": lines(table), "reason": reason}
    _change(service, identity, project, changed, action="budget.set", cases=cases, detail=detail)


def remove_budget(
    service: Service, identity: Identity, project: Row[Any], *, cases: str, environment: str, reason: str
) -> None:
    """Remove the budget of some cases in a class of environments, if there is one."""
    gone = {_ENVIRONMENT: environment} if environment else {}

    def changed(tables: Tables) -> Tables:
        return _joined(tables, cases, [one for name, one in _each(tables) if name == cases and not _alike(one, gone)])

    detail = {**gone, "reason": reason}
    _change(service, identity, project, changed, action="budget.remove", cases=cases, detail=detail)


def _change(
    service: Service,
    identity: Identity,
    project: Row[Any],
    changed: Callable[[Tables], Tables],
    *,
    action: str,
    cases: str,
    detail: dict[str, Any],
) -> None:
    at = service.clock()

    def work(connection: Connection) -> None:
        # Writers of one project take turns: each changes what the one before has left.
        projects.charge(connection, project.id, 0)
        row = projects.by_name(connection, project.name)
        before = _read(row.budgets) if row is not None else {}
        after = changed(before)
        if after != before:
            projects.change(connection, project.id, {"budgets": compact(after) if after else ""})
            audit(connection, identity, action, cases, detail, at, project.id)

    service.database.write(work)


def _read(budgets: str) -> Tables:
    found: Tables = json.loads(budgets) if budgets else {}
    return found


def _table(text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"this is no TOML: {error}.", advice="Write a line such as compiles_steady = { max = 0 }."
        ) from error
    if not found.keys() - {_ENVIRONMENT}:
        raise UsageError("there is no limit.", advice="Write a line such as compiles_steady = { max = 0 }.")
    return found


def _each(tables: Tables) -> Iterator[tuple[str, dict[str, Any]]]:
    for cases, value in tables.items():
        for table in value if isinstance(value, list) else [value]:
            yield cases, table


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    # An empty one is none, for a form.
    return bool((one.get(_ENVIRONMENT) or "") == (other.get(_ENVIRONMENT) or ""))


def _joined(tables: Tables, cases: str, held: list[dict[str, Any]]) -> Tables:
    """Return budgets with other tables of some cases."""
    rest = {name: value for name, value in tables.items() if name != cases}
    if not held:
        return rest
    return rest | {cases: held[0] if len(held) == 1 else held}
