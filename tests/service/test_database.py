"""The one way to write: grouped, isolated, durable, and the same tables from migrations as from the code."""

import subprocess
import sys
import textwrap
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import bindparam, event, func, insert, inspect, select, text, update

from qwenperf.errors import UsageError
from qwenperf.service.auth import storage
from qwenperf.service.db import alerts, engines, runs, series
from qwenperf.service.db.database import Database
from qwenperf.service.db.prepared import Prepared
from qwenperf.service.db.tables import metadata, projects
from qwenperf.service.db.upgrade import check_version, newest, upgrade, version
from qwenperf.service.problems import ConflictError, ServiceUnavailableError


@pytest.fixture
def database(database_url):
    made = Database(database_url, pool_size=4)
    yield made
    made.close()


def row(name):
    return {"name": name, "public": False, "quota_bytes": 1, "created_at": 1}


def names(database):
    with database.read() as connection:
        return set(connection.execute(select(projects.c.name)).scalars())


def test_migrations_make_the_tables_that_the_code_knows(database):
    """Column by column, index by index: neither is changed without the other. One index is SQLite's alone."""

    def belongs(_, name, kind, *__):
        return database.is_sqlite or (kind, name) != ("index", "series_unjudged")

    opts = {"compare_type": True, "compare_server_default": False, "include_object": belongs}
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


ASKED = [
    (lambda connection: series.unjudged(connection, 5, 10), "series_unjudged"),
    (lambda connection: runs.recent(connection, 1, commit="c"), "runs_commit"),
    (lambda connection: alerts.accepted_changes(connection, 1), "accepted_project"),
    (lambda connection: storage.revoke(connection, 1, 1), "sessions_token"),
]


@pytest.mark.parametrize(("ask", "index"), ASKED)
def test_what_is_asked_all_the_time_reads_an_index_and_no_whole_table(database, ask, index):
    """Four times a second, by each page, or for each token that goes."""
    if index == "series_unjudged" and not database.is_sqlite:
        index = "series_pkey"  # in order, so that whoever wants ten stops at ten
    asked = []

    def plan(_connection, _cursor, statement, parameters, *_):
        if not statement.startswith(("EXPLAIN", "SET")):
            asked.append((statement, parameters))

    explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "

    def work(connection):
        if not database.is_sqlite:
            # Nothing is there, which is read as fast as an index.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        event.listen(connection, "before_cursor_execute", plan)
        ask(connection)
        event.remove(connection, "before_cursor_execute", plan)
        plans = [connection.exec_driver_sql(explain + one, held).all() for one, held in asked]
        return "\n".join(str(line) for one in plans for line in one)

    assert index in database.write(work)


def test_upgrading_twice_changes_nothing(database_url):
    """A version is told before and after."""
    assert upgrade(database_url) == (newest(), newest())


def test_a_database_of_a_later_version_is_refused(database):
    """And left as it is: it holds what this version does not know."""
    database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(UsageError, match="later than this"):
        upgrade(database.url)
    with database.read() as connection:
        assert version(connection) == "9999"
        with pytest.raises(UsageError):
            check_version(connection)


def test_what_was_written_is_seen_by_whoever_reads_next(database):
    """``write`` returns after the commit."""
    number = database.write(
        lambda connection: connection.execute(insert(projects).returning(projects.c.id), row("a")).scalar_one()
    )
    assert number == 1
    assert names(database) == {"a"}


def test_work_that_fails_leaves_nothing_and_spoils_nothing_beside_it(database):
    """Many pieces of work at once, every third of which fails after its insert."""
    errors = {}

    def work(number):
        def inner(connection):
            connection.execute(insert(projects), row(f"p{number}"))
            if number % 3 == 0:
                raise LookupError(number)

        try:
            database.write(inner)
        except LookupError as error:
            errors[number] = error.args[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == {number: number for number in range(0, 30, 3)}
    assert names(database) == {f"p{number}" for number in range(30) if number % 3}


def test_a_contradiction_is_a_conflict_of_whoever_made_it(database):
    """A name that is taken ends one piece of work and not the next."""
    database.write(lambda connection: connection.execute(insert(projects), row("a")))
    with pytest.raises(ConflictError):
        database.write(lambda connection: connection.execute(insert(projects), row("a")))
    database.write(lambda connection: connection.execute(insert(projects), row("b")))
    assert names(database) == {"a", "b"}


def test_a_statement_that_is_written_once_answers_and_is_refused_as_any_other(database):
    """Rows come by place, and what contradicts is a conflict that leaves the work beside it alone."""
    columns = [column.name for column in projects.c if column.name in row("")]
    add = Prepared(insert(projects).returning(projects.c.id), columns)
    find = Prepared(
        select(projects.c.name, projects.c.quota_bytes).where(projects.c.name == bindparam("called")), ["called"]
    )
    grow = Prepared(update(projects).values(quota_bytes=projects.c.quota_bytes + bindparam("more")), ["more"])
    number = database.write(lambda connection: add.ask(connection, **row("one")).number)
    with pytest.raises(ConflictError):
        database.write(lambda connection: add.ask(connection, **row("one")))
    assert database.write(lambda connection: grow.ask(connection, more=4).changed) == 1
    with database.read() as connection:
        assert [tuple(one) for one in find.ask(connection, called="one").rows] == [("one", 5)]
        assert connection.execute(select(projects.c.id)).scalars().all() == [number]


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_no_index_has_room_for_is_wrong_and_no_reason_to_try_again(database):
    """Whoever sends it again and again would wait for ever, and all that waits behind it."""
    long = "".join(chr(0x4E00 + 7919 * at % 20_000) for at in range(1000))
    with pytest.raises(UsageError, match="longer"):
        database.write(
            lambda connection: connection.execute(insert(metadata.tables["files_going"]), going(connection, long))
        )


def going(connection, name):
    connection.execute(insert(projects), row("long"))
    return {"project_id": connection.execute(select(projects.c.id)).scalar(), "name": name}


def test_a_reader_sees_one_moment(database):
    """What is written while one reads is not seen in the middle."""
    database.write(lambda connection: connection.execute(insert(projects), row("a")))
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(projects)).scalar() == 1
        database.write(lambda writing: writing.execute(insert(projects), row("b")))
        assert connection.execute(select(func.count()).select_from(projects)).scalar() == 1
    assert names(database) == {"a", "b"}


def test_reading_connections_cannot_write(database):
    """A page that wrote by mistake would get round the one writer."""
    with pytest.raises(ServiceUnavailableError), database.read() as connection:
        connection.execute(insert(projects), row("a"))
    assert names(database) == set()


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path):
    """SQLite's own refusal at a page limit, as at the end of a disk; with room again, work goes on."""
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    upgrade(url)
    database = Database(url, pool_size=2)
    writing = database._writer._engine

    def limit(pages):
        with writing.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    database.write(lambda connection: connection.execute(insert(projects), row("a")))
    limit(1)
    with pytest.raises(ServiceUnavailableError):
        database.write(lambda connection: connection.execute(insert(projects), row("b") | {"title": "x" * 1_000_000}))
    assert names(database) == {"a"}
    limit(1_000_000)
    database.write(lambda connection: connection.execute(insert(projects), row("c")))
    assert names(database) == {"a", "c"}
    database.close()


def test_a_locked_database_is_told_and_tried_again(tmp_path, monkeypatch):
    """Another process holds SQLite's lock; when it lets go, writing goes on."""
    monkeypatch.setattr(engines, "_BUSY_MS", 50)
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    upgrade(url)
    database = Database(url, pool_size=2)
    code = f"""
        import sqlite3, sys
        connection = sqlite3.connect({str(tmp_path / "a.sqlite")!r}, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        sys.stdin.readline()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(ServiceUnavailableError):
        database.write(lambda connection: connection.execute(insert(projects), row("a")))
    holder.communicate("go\n")
    database.write(lambda connection: connection.execute(insert(projects), row("b")))
    assert names(database) == {"b"}
    database.close()


def test_commits_of_sqlite_are_on_the_disk_when_they_return(tmp_path):
    """The pragmas that say so are set on the connection that writes."""
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    upgrade(url)
    database = Database(url, pool_size=2)

    def asked(connection):
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]

    assert database.write(asked) == ["wal", 2]
    database.close()


def test_a_service_that_ends_says_so(database):
    """Work that comes after the end is refused, and not forgotten in silence."""
    if not database.is_sqlite:
        pytest.skip("PostgreSQL has no writer of ours")
    database.close()
    with pytest.raises(ServiceUnavailableError, match="ending"):
        database.write(lambda _: None)
