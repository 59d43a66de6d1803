"""The run or comparison that the address of a page names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row
from starlette.requests import Request

from qwenperf.service.db import comparisons, runs
from qwenperf.service.db.files import Kind, Owner
from qwenperf.service.problems import Problem
from qwenperf.service.web import asked


@dataclass(frozen=True, kw_only=True)
class Named:
    """A run or comparison, by its name and its row."""

    kind: Kind
    name: str
    row: Row[Any]

    @property
    def owner(self) -> Owner:
        """Whose its files are."""
        return Owner(self.kind, self.row.id)


def kind_of(request: Request) -> Kind:
    """Return which of the two an address is of."""
    return "run" if "run" in request.path_params else "comparison"


def find(request: Request, connection: Connection, project_id: int) -> Named | None:
    """Return what the address names; ``None`` where the project has no such thing."""
    kind = kind_of(request)
    name = asked.name(request, kind)
    by_name = runs.by_name if kind == "run" else comparisons.by_name
    row = by_name(connection, project_id, name)
    return None if row is None else Named(kind=kind, name=name, row=row)


def named(request: Request, connection: Connection, project_id: int) -> Named:
    """Return what the address names.

    Raises:
      Problem: 404, the project has no such thing.
    """
    found = find(request, connection, project_id)
    if found is None:
        kind = kind_of(request)
        raise Problem(404, f"There is no such {kind} in this project.", f"The list of {kind}s has all of them.")
    return found
