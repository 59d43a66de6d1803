"""Databases of earlier versions come along with their rows."""

import pytest
from alembic import command
from sqlalchemy import create_engine, text

from qwenperf.service.db import upgrade as upgrading
from qwenperf.service.db.database import Database
from qwenperf.service.db.main_line import unjudged
from qwenperf.service.db.projects import by_name


@pytest.fixture
def first(tmp_path):
    """A SQLite database as the first version made it, with a project and a run."""
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        config = upgrading._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(
            text("INSERT INTO projects (name, public, quota_bytes, created_at) VALUES ('demo', 0, 1, 1)")
        )
        connection.execute(text("INSERT INTO records (body, size) VALUES (x'00', 1)"))
        connection.execute(
            text(
                "INSERT INTO runs (project_id, name, sha256, record_id, at, measured_at, cases, failed, interrupted, "
                "received_at) VALUES (1, 'r', 'x', 1, 1, 1, 0, 0, 0, 1)"
            )
        )
    engine.dispose()
    return url


def test_a_project_without_main_is_judged_by_the_branch_of_most_runs(first):
    """Else nothing of it would be looked at any more, and its alerts would end in silence."""
    engine = create_engine(first)
    with engine.begin() as connection:
        for name, branch in (("a", "master"), ("b", "master"), ("c", "topic")):
            row = {"name": name, "branch": branch, "record": ord(name)}
            connection.execute(text("INSERT INTO records (id, body, size) VALUES (:record, x'00', 1)"), row)
            connection.execute(
                text(
                    "INSERT INTO runs (project_id, name, sha256, record_id, at, measured_at, cases, failed, "
                    "interrupted, received_at, branch) VALUES (1, :name, :name, :record, 1, 1, 0, 0, 0, 1, :branch)"
                ),
                row,
            )
    engine.dispose()
    upgrading.upgrade(first)
    database = Database(first, pool_size=2)
    try:
        with database.read() as connection:
            assert connection.execute(text("SELECT default_branch FROM projects")).scalar() == "master"
    finally:
        database.close()


def test_runs_of_the_first_version_are_of_no_branch_and_judged(first):
    """What was red then is no alert of today; the default branch is main."""
    assert upgrading.upgrade(first)[0] == "0001"
    database = Database(first, pool_size=2)
    try:
        with database.read() as connection:
            assert unjudged(connection, 10) == []
            row = by_name(connection, "demo")
            assert row is not None
            assert row.default_branch == "main"
            assert connection.execute(text("SELECT fork_point FROM runs")).scalar() == ""
    finally:
        database.close()
