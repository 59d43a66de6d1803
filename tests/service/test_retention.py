"""What retention leaves although it is old: comparisons that somebody may still want to look at, and what comes now."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, text, update

from qwenperf.service.arrivals import read_record
from qwenperf.service.db import projects, retention
from qwenperf.service.db import runs as kept
from qwenperf.service.db.tables import alerts, comparisons, github_posts, runs, series
from qwenperf.service.jobs import expire, sweep
from qwenperf.service.times import DAY_US
from qwenperf.service.writing_json import compact

HERE, DAYS = "/comparisons/compare-1", 30


@pytest.fixture
def compared(project, documents):
    """A project with a run that has just come, and with an old comparison of its commit."""
    project.post("/runs", documents.run(1))
    document = documents.comparison()
    document["head"]["commit"]["sha"] = documents.run(1)["commit"]["sha"]
    project.post("/comparisons", document)
    return project


def write(project, statement):
    """Write to the database of the project's service."""
    project.server.service.database.write(lambda connection: connection.execute(statement).rowcount)


def stays(project):
    """Say whether the comparison is there after retention, though it came long ago."""
    service, row = project.server.service, project.row
    write(project, update(comparisons).where(comparisons.c.project_id == row.id).values(received_at=1))
    expire(service, row.id, service.clock() - DAYS * DAY_US)
    assert len(project.get("/runs")["runs"]) == 1
    return project.http.get(project.path + HERE).status_code == 200


def number_of(project, table):
    """Return the number of the project's only row."""
    with project.server.service.database.read() as connection:
        return connection.execute(select(table.c.id).where(table.c.project_id == project.row.id)).scalar_one()


def test_an_old_comparison_that_nothing_refers_to_goes(compared):
    """Its age counts from its measuring."""
    assert not stays(compared)


def test_a_comparison_that_has_just_come_stays_however_long_ago_it_was_measured(compared):
    """As a run does, for as many days."""
    service = compared.server.service
    compared.ask("PATCH", "", 200, json={"retention_days": DAYS})
    sweep(service)
    assert compared.get("/comparisons")["comparisons"] != []
    sweep(replace(service, clock=lambda: service.clock() + (DAYS + 1) * DAY_US))
    assert compared.get("/comparisons")["comparisons"] == []


@pytest.mark.parametrize(
    ("state", "kept"),
    [("open", True), ("confirmed", True), ("resolved", False), ("dismissed", False), ("accepted", False)],
)
def test_a_comparison_outlives_its_age_while_an_alert_of_its_commit_waits_for_an_answer(compared, state, kept):
    """It shows what the commit did; an answer that was given needs it no more."""
    number = compared.row.id
    values = {"project_id": number, "run_id": number_of(compared, runs), "kind": "gate", "state": state, "at": 1}
    write(compared, insert(alerts).values(values | {"created_at": 1, "updated_at": 1}))
    assert stays(compared) is kept
    if kept:
        write(compared, update(alerts).where(alerts.c.project_id == number).values(state="resolved"))
        assert not stays(compared)


def test_an_alert_of_another_commit_keeps_nothing(compared):
    """Nor does one of a run of no commit."""
    number = compared.row.id
    values = {"project_id": number, "run_id": number_of(compared, runs), "kind": "gate", "state": "open", "at": 1}
    write(compared, insert(alerts).values(values | {"created_at": 1, "updated_at": 1}))
    write(compared, update(runs).where(runs.c.project_id == number).values(commit=""))
    write(compared, update(comparisons).where(comparisons.c.project_id == number).values(head_commit=""))
    assert not stays(compared)


def test_a_comparison_outlives_its_age_with_a_change_that_somebody_accepted(compared, documents):
    """Whoever asks why finds the evidence, until the run goes at which the change begins."""
    told = {"case": "tiny/cached", "metric": "tpot_s", "run": "run-000001", "reason": "as expected"}
    compared.post("/accepted", told)
    assert stays(compared)
    compared.post("/runs", documents.run(2))
    compared.ask("DELETE", "/runs/run-000001", 204)
    assert not stays(compared)


REPORTED = [
    ({"state": "sent"}, True),
    ({"state": "sent", "days": DAYS + 1}, False),
    ({"state": "waiting", "days": DAYS + 1, "sha": ""}, True),
    ({"state": "refused"}, False),
    ({"state": "failed", "sha": ""}, False),
]


@pytest.mark.parametrize(("post", "kept"), REPORTED)
def test_a_comparison_outlives_its_age_with_a_report_on_github_that_shows_it(compared, post, kept):
    """Which links to its page."""
    report(compared, comparison_id=number_of(compared, comparisons), **post)
    assert stays(compared) is kept


def test_a_report_that_was_written_anew_still_shows_what_it_showed_before(compared):
    """All that was measured of a commit is in one."""
    report(compared, comparison_id=number_of(compared, comparisons), state="sent", days=DAYS + 1)
    report(compared, run_id=number_of(compared, runs), state="sent", sha="b" * 40)
    assert not stays(compared)


def test_a_newer_record_of_the_commit_keeps_what_is_in_the_same_report(compared):
    """As long as itself."""
    report(compared, comparison_id=number_of(compared, comparisons), state="sent", days=DAYS + 1)
    report(compared, run_id=number_of(compared, runs), state="sent")
    assert stays(compared)


def report(project, *, state, days=0, sha="a" * 40, **of):
    """Let GitHub have been told of a record so many days ago."""
    at = project.server.service.clock() - days * DAY_US
    times = {"next_at": at, "created_at": at, "updated_at": at}
    values = {"project_id": project.row.id, "repository_id": "4711", "sha": sha, "state": state}
    write(project, insert(github_posts).values(values | times | of))


ON_POSTGRESQL = pytest.mark.parametrize(
    "database_url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""SQLite has one writer, which does one thing after the other."""


@pytest.fixture
def aged(server, client, documents):
    """The service, its project, and a time before which it has two old runs of one case and none of another."""
    before = server.service.clock() - DAYS * DAY_US
    for document in (documents.run(1), documents.run(2, cases=("tiny/cached", "tiny/old"))):
        client.post("/api/v1/projects/demo/runs", json=document).raise_for_status()
    server.service.database.write(lambda connection: connection.execute(update(runs).values(received_at=1)).rowcount)
    with server.service.database.read() as connection:
        return server.service, projects.by_name(connection, "demo").id, before


def known_of(service):
    """Return what is known of each case: how many points, how many there really are, the newest value."""
    real = text("SELECT COUNT(*) FROM points WHERE series_id = :number")
    asked = select(series.c.case, series.c.points, series.c.id, series.c.last_value).order_by(series.c.case)
    with service.database.read() as connection:
        return [
            (row.case, row.points, connection.execute(real, {"number": row.id}).scalar(), row.last_value)
            for row in connection.execute(asked).all()
        ]


def waits_for_a_lock(database, most_s):
    """Wait until somebody waits for a lock of somebody else."""
    asks = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    ends = time.monotonic() + most_s
    while time.monotonic() < ends:
        with database.read() as connection:
            if connection.execute(asks).scalar():
                return
        time.sleep(0.01)
    raise TimeoutError


def arrives(connection, project, document):
    """Keep a run as one that is pushed now."""
    arrived = read_record(compact(document).encode())
    return kept.keep(connection, project, arrived, at=time.time_ns() // 1000, by="ci")


@ON_POSTGRESQL
def test_a_run_that_arrives_while_old_ones_go_keeps_its_points(aged, documents, monkeypatch):
    """It was acknowledged: its point stays, is counted and is the newest; also where the series had only old ones."""
    service, project, before = aged
    new = documents.run(3, value=7.0, cases=("tiny/cached", "tiny/old", "tiny/new"))
    going, begun = retention.expire, threading.Event()

    def arriving():
        with service.database.engine.begin() as connection:
            arrives(connection, project, new)
            begun.set()
            with suppress(TimeoutError):
                waits_for_a_lock(service.database, 1)

    with ThreadPoolExecutor(1) as pool:

        def gone(connection, *rest):
            count = going(connection, *rest)
            if not count:
                others.append(pool.submit(arriving))
                begun.wait(20)
            return count

        others = []
        monkeypatch.setattr(retention, "expire", gone)
        assert expire(service, project, before) == 2
        others[0].result(20)
    assert known_of(service) == [(name, 1, 1, 7.0) for name in ("tiny/cached", "tiny/new", "tiny/old")]


def test_series_know_of_old_runs_that_went_in_the_moment_in_which_they_go(aged, documents):
    """Whoever is killed behind that leaves no series without points, and no count that nobody puts right."""
    service, project, before = aged
    service.database.write(lambda connection: arrives(connection, project, documents.run(3, value=7.0)))
    service.database.write(lambda connection: retention.expire(connection, project, before))
    assert known_of(service) == [("tiny/cached", 1, 1, 7.0)]
