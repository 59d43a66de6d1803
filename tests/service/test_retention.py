"""What retention leaves although it is old: comparisons that somebody may still want to look at."""

from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update

from qwenperf.service.db.tables import alerts, comparisons, github_posts, runs
from qwenperf.service.jobs import expire, sweep
from qwenperf.service.times import DAY_US

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
