"""Makes projects and changes what is said of them: the rules that the API and the pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.errors import UsageError
from qwenperf.gate.budget import parse as parse_budgets
from qwenperf.service.api.asked import field_of
from qwenperf.service.auth import audit, require
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service
from qwenperf.service.db import projects, series
from qwenperf.service.problems import in_field
from qwenperf.service.texts import project_name
from qwenperf.service.writing_json import compact

FIELDS = (
    "project", "title", "public", "quota_bytes", "retention_days", "owner", "repository", "budgets", "default_branch",
)  # fmt: skip
MOST_DAYS = 36_500
MOST_LINE = 200
Document = dict[str, Any]


def create_project(service: Service, identity: Identity, document: Document) -> Row[Any]:
    """Make a project as a document with some of ``FIELDS`` describes it, and return it.

    Raises:
      Problem: 401 or 403, who asks does not look after the whole service.
      FieldError: a value is none that a project can have.
      ConflictError: one of this name is there.
    """
    require(identity, None, "admin")
    values: Document = {"quota_bytes": service.settings.quota_bytes, "public": False}
    values |= _values(document)
    with in_field("project"):
        name = project_name(document.get("project"))
    at = service.clock()
    values |= {"name": name, "created_at": at}

    def work(connection: Connection) -> Row[Any] | None:
        number = projects.create(connection, values)
        audit(connection, identity, "project.create", name, {"project": name, "public": values["public"]}, at, number)
        return projects.by_name(connection, name)

    row = service.database.write(work)
    assert row is not None
    return row


def change_project(service: Service, identity: Identity, project: Row[Any], document: Document) -> None:
    """Change what is said of a project; a value that it has already is no change.

    Raises:
      Problem: 403, its quota is for those who look after the whole service.
      FieldError: a value is none that a project can have.
      UsageError: the document says nothing.
    """
    values = _values(document)
    if "quota_bytes" in values:
        # A project's own admin must not grow beyond what the service gave it.
        require(identity, None, "admin")
    if not values:
        raise UsageError("nothing is changed.", advice=f"Send some of {', '.join(FIELDS[1:])}.")
    changed = {name: value for name, value in values.items() if value != getattr(project, name)}
    at = service.clock()
    detail = {name: "others" if name == "budgets" else value for name, value in changed.items()}

    def work(connection: Connection) -> None:
        projects.change(connection, project.id, changed)
        if "default_branch" in changed:
            series.judge_anew(connection, project.id)
        audit(connection, identity, "project.change", project.name, detail, at, project.id)

    if changed:
        service.database.write(work)


def _values(document: Document) -> Document:
    """Return the columns that a document sets.

    Raises:
      FieldError: one of them is none that a project can have.
    """
    values: Document = {}
    for name, read in _READ.items():
        if name in document:
            with in_field(name):
                values[name] = read(document, name)
    return values


def _line(document: Document, name: str) -> str:
    value: str = field_of(document, name, str)
    if len(value) > MOST_LINE or not value.isprintable():
        raise UsageError(f"{name} is no line of at most {MOST_LINE} characters.")
    return value


def _branch(document: Document, name: str) -> str:
    value = _line(document, name)
    if not value:
        raise UsageError(f"{name} is empty.", advice="Name the branch that runs are judged on, such as main.")
    return value


def _flag(document: Document, name: str) -> bool:
    value: bool = field_of(document, name, bool)
    return value


def _quota(document: Document, name: str) -> int:
    return _at_least(field_of(document, name, int), name, 0)


def _days(document: Document, name: str) -> int | None:
    days = field_of(document, name, int, None)
    return None if days is None else min(_at_least(days, name, 1), MOST_DAYS)


def _at_least(value: int, name: str, least: int) -> int:
    if value < least:
        raise UsageError(f"{name} is {value}; it is at least {least}.")
    return value


def _budgets(document: Document, name: str) -> str:
    budgets = field_of(document, name, dict)
    parse_budgets(budgets, name)
    return compact(budgets) if budgets else ""


_READ: Mapping[str, Callable[[Document, str], Any]] = {
    "title": _line,
    "owner": _line,
    "repository": _line,
    "default_branch": _branch,
    "public": _flag,
    "quota_bytes": _quota,
    "retention_days": _days,
    "budgets": _budgets,
}
