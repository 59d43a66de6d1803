"""Changes in series become alerts; so does a case of which nothing comes any more."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.service import judging, judging_series
from qwenperf.service.db.tables import runs
from qwenperf.service.jobs import sweep
from qwenperf.service.judging import find_stopped, judge_new

pytest.importorskip("asv")

HOUR = 3600 * 10**6
ELSEWHERE = {"platform": "cpu", "cpu_model": "another", "cores": 2}


def judged(project):
    """Judge everything that is new, and return the alerts."""
    while judge_new(project.server.service):
        pass
    return project.get("/alerts")["alerts"]


def noisy(number, level):
    """Return a level with noise of a hundredth, the same on every machine."""
    return level * (1 + 0.01 * (((number * 7919) % 101) / 50 - 1))


def speeds(number):
    """Return metrics of which one becomes worse, one better, and one stays as it is."""
    late = number >= 25
    return {
        "tpot_s": noisy(number, 1.5 if late else 1.0),
        "ttft_s": noisy(number, 1.0 if late else 2.0),
        "itl_p50_s": noisy(number, 1.0),
    }


def test_a_step_for_the_worse_is_an_alert_until_it_is_accepted(project, documents):
    """Told with both levels, its first run and an owner; a better metric and a steady one are no alerts."""
    project.ask("PATCH", "", 200, json={"owner": "decode team"})
    for number in range(40):
        project.post("/runs", documents.run(number, **speeds(number)))
    (alert,) = judged(project)
    assert (alert["metric"], alert["kind"], alert["state"], alert["owner"]) == (
        "tpot_s", "change", "confirmed", "decode team",
    )  # fmt: skip
    assert alert["run"] == "run-000025"
    assert alert["ratio"] == pytest.approx(1.5, rel=0.05)
    assert judge_new(project.server.service) == 0
    said = {"case": alert["case"], "metric": alert["metric"], "run": alert["run"], "reason": "as planned"}
    project.post("/accepted", said)
    project.post("/runs", documents.run(41, **speeds(41)))
    assert [one["state"] for one in judged(project)] == ["accepted"]


def test_one_series_that_cannot_be_judged_keeps_no_other_from_it(project, documents, monkeypatch):
    """It is left until its next point; a time that no calendar has, from before such were refused, breaks no page."""
    for number in range(12):
        project.post("/runs", documents.run(number, cases=("a", "b"), compiles_steady=0))
    project.post("/runs", documents.run(12, cases=("a", "b"), compiles_steady=2))
    judge = judging_series.judge_series

    def broken(series):
        if series.case == "a":
            raise OverflowError
        return judge(series)

    monkeypatch.setattr(judging_series, "judge_series", broken)
    assert [one["case"] for one in judged(project)] == ["b"]
    beyond = update(runs).where(runs.c.project_id == project.row.id).values(at=2**62, committed_at=-(2**62))
    project.server.service.database.write(lambda connection: connection.execute(beyond).rowcount)
    assert project.get("/runs")["runs"][0]["at"].startswith("9999-12-31")
    assert project.http.get(f"/p/{project.name}/runs").status_code == 200


def test_an_exact_number_is_told_at_once_and_confirmed_by_the_next_run(project, documents):
    """Compiles do not vary: one run is enough to ask, a second to call it a regression."""
    for number in range(12):
        project.post("/runs", documents.run(number, compiles_steady=0))
    project.post("/runs", documents.run(12, compiles_steady=2))
    assert [one["state"] for one in judged(project)] == ["open"]
    project.post("/runs", documents.run(13, compiles_steady=2))
    assert [(one["state"], one["run"]) for one in judged(project)] == [("confirmed", "run-000012")]


def test_machines_that_take_turns_tell_of_an_exact_number_at_once_and_once(project, documents):
    """Each is compared with its own last run; what one has told the other need not, nor what was accepted."""

    def send(number, value):
        machine = ELSEWHERE if number % 2 else None
        project.post("/runs", documents.run(number, compiles_steady=value, environment=machine))
        return [(one["state"], one["run"]) for one in judged(project)]

    for number in range(8):
        assert send(number, 0) == []
    assert send(8, 2) == [("open", "run-000008")]
    assert send(9, 2) == [("open", "run-000008")]
    assert send(10, 2) == [("confirmed", "run-000008")]
    assert send(12, 3) == [("open", "run-000012"), ("confirmed", "run-000008")]
    said = {"case": "tiny/cached", "metric": "compiles_steady", "run": "run-000012", "reason": "as planned"}
    project.post("/accepted", said)
    assert send(13, 3) == [("accepted", "run-000012"), ("confirmed", "run-000008")]


def test_without_what_finds_changes_alerts_stay_as_they_are(project, documents, monkeypatch):
    """Nobody has looked: nothing is over."""
    for number in range(12):
        project.post("/runs", documents.run(number, compiles_steady=0))
    project.post("/runs", documents.run(12, compiles_steady=2))
    assert [one["state"] for one in judged(project)] == ["open"]

    def unfit(_):
        raise EnvironmentUnfitError("asv is not installed.")

    monkeypatch.setattr(judging_series, "judge_series", unfit)
    project.post("/runs", documents.run(13, compiles_steady=2))
    assert [one["state"] for one in judged(project)] == ["open"]


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


def test_series_with_points_all_the_time_keep_no_other_waiting(project, documents, monkeypatch):
    """Each has its turn, also where more come in between than are looked at in one."""
    monkeypatch.setattr(judging, "_AT_ONCE", 2)
    cases, seen = ("a", "b", "c", "d", "e"), []

    def look(rows):
        seen.extend(row.case for row in rows)
        return [judging_series.Looked(found=()) for _ in rows]

    judged(project)
    judge = judging.SeriesJudge(project.server.service, look)
    for number in range(5):
        project.post("/runs", documents.run(number, cases=cases, tpot_s=1.0))
        assert judge.some() == 2
    assert sorted(seen) == sorted([*cases, *cases])
