"""The first token of a new service: for everything, made when there is none, shown once."""

from __future__ import annotations

from sqlalchemy import Connection, text

from qwenperf.service.auth.audit_log import audit
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.storage import add_token, any_token
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import Service

_NAME = "first admin"
_LOCK = 7_711_866
"""Number of the advisory lock that lets one process at a time look whether there is a token."""


def first_token(service: Service) -> str | None:
    """Return the text of the first admin token, or ``None`` where there has ever been a token.

    Nobody can read it again; somebody who lost it makes another with ``qwenperf db token NAME``.
    """
    return service.database.write(lambda connection: _first(connection, service.clock()))


def new_admin_token(service: Service, name: str) -> str:
    """Return the text of a further admin token for everything: for whoever can reach the database itself."""
    return service.database.write(lambda connection: _made(connection, name, service.clock()))


def _first(connection: Connection, at: int) -> str | None:
    if connection.dialect.name == "postgresql":
        # Of several processes that start on a new database one makes it. SQLite has one writer.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    return None if any_token(connection) else _made(connection, _NAME, at)


def _made(connection: Connection, name: str, at: int) -> str:
    made = add_token(connection, name=name, scope=Scope.ADMIN, project_id=None, at=at, created_by="command line")
    operator = Identity(name="command line", kind="operator")
    audit(connection, operator, "token.create", made.prefix, detail={"name": name, "scope": "admin"}, at=at)
    return made.text
