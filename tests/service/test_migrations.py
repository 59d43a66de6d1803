"""Databases of earlier versions come along with their rows."""

import os
from contextlib import contextmanager

import pytest
from alembic import command
from sqlalchemy import text

from qwenperf.service.db import upgrade as upgrading
from qwenperf.service.db import uploads
from qwenperf.service.db.database import Database
from qwenperf.service.db.engines import postgresql_engine, sqlite_engine
from qwenperf.service.db.main_line import unjudged
from qwenperf.service.db.projects import by_name

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
PROJECT = "INSERT INTO projects (name, public, quota_bytes, created_at) VALUES ('demo', :no, 1, 1)"
RECORD = "INSERT INTO records (body, size) VALUES (:body, 1)"
RUN = """
INSERT INTO runs (project_id, name, sha256, record_id, at, measured_at, cases, failed, interrupted, received_at, branch)
VALUES (1, :name, :name, :record, 1, 1, 0, 0, :no, 1, :branch)
"""
UPLOAD = """
INSERT INTO uploads (id, project_id, run_id, path, sha256, size, received, created_at, updated_at, pushed_by)
VALUES ('u', 1, 1, 'a.pb', 's', 9, 4, 5, 6, 'ci')
"""


SERIES = """
INSERT INTO series (project_id, "case", metric, points, judged, last_at, last_value, last_run_id)
VALUES (1, :name, 'm', :points, :points, 1, 1.0, 1)
"""
POINT = "INSERT INTO points (series_id, at, run_id, value, samples) VALUES (:series, :at, 1, :value, 1)"


@pytest.fixture(params=DATABASES)
def first(request, tmp_path):
    """A database as the first version made it, with a project and a run."""
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    if request.param == "postgresql":
        cluster, name = request.getfixturevalue("cluster"), f"old_{os.urandom(6).hex()}"
        cluster.run(f"CREATE DATABASE {name}")
        url = cluster.url(name)
    with changing(url) as connection:
        config = upgrading._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text(PROJECT), {"no": False})
        add_run(connection, "r", "", 1)
    yield url
    if request.param == "postgresql":
        cluster.run(f"DROP DATABASE {name} WITH (FORCE)")


def add_run(connection, name, branch, record):
    """Add a run as the first version did; ``record``: so many there are with it."""
    connection.execute(text(RECORD), {"body": b"0"})
    connection.execute(text(RUN), {"name": name, "branch": branch, "record": record, "no": False})


@contextmanager
def changing(url):
    """Give a connection to a database of any version; it commits in the end."""
    is_sqlite = url.startswith("sqlite")
    engine = sqlite_engine(url, pool_size=1, writes=True) if is_sqlite else postgresql_engine(url, pool_size=1)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_a_project_without_main_is_judged_by_the_branch_of_most_runs(first):
    """Else nothing of it would be looked at any more, and its alerts would end in silence."""
    with changing(first) as connection:
        for record, (name, branch) in enumerate((("a", "master"), ("b", "master"), ("c", "topic")), 2):
            add_run(connection, name, branch, record)
    upgrading.upgrade(first)
    database = Database(first, pool_size=2)
    try:
        with database.read() as connection:
            assert connection.execute(text("SELECT default_branch FROM projects")).scalar() == "master"
    finally:
        database.close()


def test_an_upload_under_way_goes_on(first):
    """It is of its run as before, with the parts that came; what is new is that it might be of a comparison."""
    with changing(first) as connection:
        connection.execute(text(UPLOAD))
        connection.execute(text("INSERT INTO upload_parts VALUES ('u', 0, 4, 'part')"))
    upgrading.upgrade(first)
    database = Database(first, pool_size=2)
    try:
        with database.read() as connection:
            (row,) = connection.execute(text("SELECT * FROM uploads")).mappings()
            assert uploads.parts(connection, "u") == ["part"]
    finally:
        database.close()
    assert dict(row) == {
        "id": "u", "project_id": 1, "run_id": 1, "comparison_id": None, "path": "a.pb", "sha256": "s", "size": 9,
        "received": 4, "created_at": 5, "updated_at": 6, "pushed_by": "ci",
    }  # fmt: skip


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


def test_series_are_counted_anew_where_they_had_other_points_than_they_say(first):
    """They are judged again; one that has none goes, and one that was right is left as it was."""
    with changing(first) as connection:
        for number, (name, said, held) in enumerate((("right", 2, 2), ("fewer", 1, 3), ("none", 2, 0)), 1):
            connection.execute(text(SERIES), {"name": name, "points": said})
            for at in range(1, held + 1):
                connection.execute(text(POINT), {"series": number, "at": at, "value": at * 10.0})
    upgrading.upgrade(first)
    with changing(first) as connection:
        asked = 'SELECT "case", points, judged, last_at, last_value FROM series ORDER BY id'
        assert [tuple(row) for row in connection.execute(text(asked))] == [
            ("right", 2, 2, 1, 1.0), ("fewer", 3, -1, 3, 30.0),
        ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("first", ["postgresql"], indirect=True)
def test_a_migration_may_take_longer_than_an_answer(first, monkeypatch):
    """An index of a large table does."""
    said = []

    def run(config, _revision):
        said.append(config.attributes["connection"].execute(text("SHOW statement_timeout")).scalar())

    monkeypatch.setattr(upgrading.command, "upgrade", run)
    upgrading.upgrade(first)
    assert said == ["0"]
