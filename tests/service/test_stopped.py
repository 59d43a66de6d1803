"""A case of which nothing comes any more is an alert."""

from dataclasses import replace

import pytest

from qwenperf.service import judging
from qwenperf.service.jobs import sweep
from qwenperf.service.judging import find_stopped

pytest.importorskip("asv")

HOUR = 3600 * 10**6


def test_a_metric_that_is_measured_no_more_is_no_case_that_stops(project, documents):
    """Its case goes on in others; when that stops, it goes on again with whichever metric comes."""
    service, at = project.server.service, 0
    clock = service.clock
    sent = ["tpot_s"] * 8 + ["ttft_s"] * 10
    try:
        for number, name in enumerate(sent):
            at = number * 12 * HOUR
            object.__setattr__(service, "clock", lambda at=at: clock() + at)
            project.post("/runs", documents.run(number, **{name: 1.0}))
        find_stopped(service)
        assert project.get("/alerts")["alerts"] == []
        object.__setattr__(service, "clock", lambda: clock() + at + 240 * HOUR)
        for _ in range(2):
            find_stopped(service)
            (alert,) = project.get("/alerts", state="open")["alerts"]
            assert (alert["kind"], alert["metric"], alert["run"]) == ("stopped", "ttft_s", "run-000017")
        project.post("/runs", documents.run(30, itl_p50_s=1.0))
        find_stopped(service)
        assert [one["state"] for one in project.get("/alerts")["alerts"]] == ["resolved"]
    finally:
        object.__setattr__(service, "clock", clock)


def test_a_case_that_stops_is_an_alert_until_it_goes_on(project, documents):
    """It came every hour, and then not for days."""
    service, ahead = project.server.service, 0
    clock = service.clock
    try:
        for number in range(8):
            ahead = number * 2 * HOUR
            object.__setattr__(service, "clock", lambda ahead=ahead: clock() + ahead)
            project.post("/runs", documents.run(number))
        find_stopped(service)
        assert project.get("/alerts")["alerts"] == []
        later = replace(service, clock=lambda: clock() + ahead + 72 * HOUR)
        sweep(later)
        (alert,) = project.get("/alerts", state="open")["alerts"]
        assert (alert["kind"], alert["run"], alert["case"]) == ("stopped", "run-000007", "tiny/cached")
        object.__setattr__(service, "clock", lambda: clock() + ahead + 73 * HOUR)
        project.post("/runs", documents.run(9))
        find_stopped(service)
        assert project.get("/alerts", state="open")["alerts"] == []
    finally:
        object.__setattr__(service, "clock", clock)


@pytest.fixture
def nightly(project, documents, monkeypatch):
    """Sends a run of some cases on a day."""
    service = project.server.service
    clock = service.clock

    def work(day, cases, *, branch="main", fork_point=""):
        monkeypatch.setitem(vars(service), "clock", lambda: clock() + day * 24 * HOUR)
        query = {"fork_point": fork_point} if fork_point else {}
        document = documents.run(24 * day + (branch != "main"), cases=cases, branch=branch)
        project.ask("POST", "/runs", 201, json=document, params=query)

    return work


def stopped(project, later=0):
    """Look for cases that stopped, now or some days later, and return what waits: its case and last run."""
    service = project.server.service
    find_stopped(replace(service, clock=lambda: service.clock() + later * 24 * HOUR))
    return {one["case"]: one["run"] for one in project.get("/alerts")["alerts"] if one["state"] == "open"}


def test_a_case_that_stops_is_found_among_many_that_are_quiet_all_day(project, nightly, monkeypatch):
    """However many there are, and whichever comes first: all are looked at, some at a time."""
    for day in range(7):
        nightly(day, ("a", "b", "c", "d", "e"))
    assert stopped(project) == {}
    for day in range(7, 12):
        nightly(day, ("a", "b", "c", "e"))
    monkeypatch.setattr(judging, "_CASES", 2)
    assert stopped(project) == {"d": "run-000144"}
    nightly(12, ("d",))
    assert stopped(project) == {}


@pytest.mark.parametrize("fork_point", ["", "a" * 40])
def test_only_runs_of_the_default_branch_say_whether_a_case_goes_on(project, nightly, fork_point):
    """A branch that was closed is no end of a case, and runs of pull requests keep no nightly one alive."""
    for day in range(6):
        nightly(day, ("old",))
        nightly(day, ("old", "new"), branch="topic", fork_point=fork_point)
    for day in range(6, 10):
        nightly(day, ("old",), branch="topic", fork_point=fork_point)
    assert stopped(project) == {"old": "run-000120"}
    nightly(11, ("old",), branch="topic", fork_point=fork_point)
    assert stopped(project) == {"old": "run-000120"}
    nightly(12, ("old",))
    assert stopped(project) == {}


def test_a_case_that_stopped_on_what_was_the_default_branch_is_over(project, nightly):
    """Another branch is what counts now."""
    for day in range(6):
        nightly(day, ("a",))
    assert stopped(project, later=9) == {"a": "run-000120"}
    project.ask("PATCH", "", 200, json={"default_branch": "trunk"})
    assert stopped(project, later=9) == {}
