"""Files that come while what they belong to goes, and files that go while somebody gets them."""

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text

from qwenperf.service.db import comparisons, files, projects, retention, runs, uploads
from qwenperf.service.db.files import Owner
from qwenperf.service.db.tables import comparisons as compared
from qwenperf.service.db.tables import runs as table_of_runs

TRACE = bytes(range(256)) * 9000

ON_POSTGRESQL = pytest.mark.parametrize(
    "database_url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""SQLite has one writer, which does one thing after the other."""


@pytest.fixture(params=["run", "comparison"])
def idle(request, server, client, documents):
    """A project with a file that no record has any more, and what gives the file to a run or comparison."""
    database, name = server.service.database, hashlib.sha256(TRACE).hexdigest()
    for document in (documents.run(1), documents.run(2), documents.comparison()):
        client.post("/api/v1/projects/demo/runs", json=document).raise_for_status()
    with database.read() as connection:
        project = projects.by_name(connection, "demo")
        first, second = (Owner("run", runs.by_name(connection, project.id, f"run-{one:06d}").id) for one in (1, 2))
        if request.param == "comparison":
            second = Owner("comparison", comparisons.by_name(connection, project.id, "compare-1").id)
    announced = {"project_id": project.id, "path": "a.pb", "sha256": name, "size": len(TRACE)}

    def give(connection, owner=second):
        wanted = uploads.Announced(owner=owner, **announced)
        return uploads.announce(connection, wanted, upload=f"upload-{owner.kind}", at=1, by="")

    row = database.write(lambda connection: give(connection, first))
    database.write(lambda connection: uploads.complete(connection, row, name="kept", at=1))
    client.delete("/api/v1/projects/demo/runs/run-000001").raise_for_status()
    return database, project.id, second, give


def waits_for_a_lock(database):
    """Wait until somebody waits for a lock of somebody else."""
    asks = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        with database.read() as connection:
            if connection.execute(asks).scalar():
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


@ON_POSTGRESQL
def test_a_file_that_a_record_gets_while_it_is_swept_up_stays(idle):
    """The record was told that it has the file, and keeps it."""
    database, project, owner, give = idle
    with ThreadPoolExecutor(1) as pool:
        with database.engine.begin() as connection:
            assert give(connection) is None
            swept = pool.submit(database.write, lambda other: files.drop_unnamed(other, project))
            waits_for_a_lock(database)
        assert swept.result(20) == []
    with database.read() as connection:
        assert [one.path for one in files.of(connection, owner)] == ["a.pb"]


@ON_POSTGRESQL
def test_a_file_that_is_swept_up_while_a_record_gets_it_is_sent_again(idle):
    """Who comes too late is asked for its content."""
    database, project, owner, give = idle
    with ThreadPoolExecutor(1) as pool:
        with database.engine.begin() as connection:
            assert files.drop_unnamed(connection, project) == ["kept"]
            given = pool.submit(database.write, give)
            waits_for_a_lock(database)
        assert given.result(20).id == f"upload-{owner.kind}"
    with database.read() as connection:
        assert files.of(connection, owner) == []


@pytest.fixture
def going(idle):
    """What removes the record of ``idle`` in a transaction, and one more file that is announced for it."""
    _, project, owner, _ = idle
    table, remove = (
        (table_of_runs, retention.remove) if owner.kind == "run" else (compared, retention.remove_comparison)
    )

    def gone(connection):
        remove(connection, connection.execute(select(table).where(table.c.id == owner.id)).one())

    return gone, uploads.Announced(project_id=project, owner=owner, path="b.pb", sha256="0" * 64, size=1000)


def held(database):
    """Return how much room is taken by what there is, and how much the project says."""
    sizes = ("LENGTH(body) + rows_bytes) FROM records", "size) FROM files", "size) FROM uploads")
    asked = ", ".join(f"COALESCE((SELECT SUM({one}), 0)" for one in sizes)
    with database.read() as connection:
        *found, used = connection.execute(text(f"SELECT {asked}, used_bytes FROM projects")).one()
    return sum(found), used


@ON_POSTGRESQL
def test_an_upload_that_is_announced_while_its_record_goes_keeps_no_room(idle, going):
    """It goes, too; the project is not left with room that nobody can give back."""
    database, (gone, wanted) = idle[0], going
    with ThreadPoolExecutor(1) as pool:
        with database.engine.begin() as connection:
            uploads.announce(connection, wanted, upload="late", at=1, by="")
            removed = pool.submit(database.write, gone)
            waits_for_a_lock(database)
        removed.result(20)
    with database.read() as connection:
        assert uploads.under_way(connection) == set()
    taken, used = held(database)
    assert taken == used


@ON_POSTGRESQL
def test_the_room_of_an_upload_that_ends_while_its_record_goes_is_given_back_once(idle, going):
    """As that of a file that nothing names any more."""
    database, (gone, wanted) = idle[0], going
    row = database.write(lambda connection: uploads.announce(connection, wanted, upload="late", at=1, by=""))
    with ThreadPoolExecutor(1) as pool:
        with database.engine.begin() as connection:
            assert uploads.complete(connection, row, name="ended", at=1)
            removed = pool.submit(database.write, gone)
            waits_for_a_lock(database)
        removed.result(20)
    taken, used = held(database)
    assert taken == used
    assert sorted(database.write(lambda connection: files.drop_unnamed(connection, wanted.project_id))) == [
        "ended", "kept",
    ]  # fmt: skip
    taken, used = held(database)
    assert taken == used
