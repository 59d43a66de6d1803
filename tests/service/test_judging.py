"""Changes in series become alerts."""

import random
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.gate import history, history_input
from qwenperf.service import judging, judging_near, judging_series
from qwenperf.service.db import alerts as known
from qwenperf.service.db.same_change import Found, matched
from qwenperf.service.db.tables import alerts, runs, series
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


def test_whoever_accepts_a_change_has_not_said_that_its_case_may_stop(project, documents, monkeypatch):
    """Both begin at the last run; the one is answered, and the other waits."""
    service, ahead = project.server.service, 0
    clock = service.clock
    for number in range(8):
        ahead = number * 2 * HOUR
        monkeypatch.setitem(vars(service), "clock", lambda ahead=ahead: clock() + ahead)
        project.post("/runs", documents.run(number, compiles_steady=5 if number == 7 else 1))
    judged(project)
    monkeypatch.setitem(vars(service), "clock", lambda: clock() + ahead + 72 * HOUR)
    find_stopped(service)
    said = {"case": "tiny/cached", "metric": "compiles_steady", "run": "run-000007", "reason": "as planned"}
    project.post("/accepted", said)
    found = project.get("/alerts")["alerts"]
    assert {one["kind"]: one["state"] for one in found} == {"change": "accepted", "stopped": "open"}


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


def answer(project, state):
    """Answer every alert of a project."""
    said = update(alerts).where(alerts.c.project_id == project.row.id).values(state=state)
    project.server.service.database.write(lambda connection: connection.execute(said).rowcount)


@pytest.fixture
def short(monkeypatch):
    """Only the last 20 points of a series are looked at."""
    for module in (history, history_input, judging_near, judging_series):
        monkeypatch.setattr(module, "MOST", 20)


def states(project):
    """Return the states and runs of a project's alerts, judged."""
    return [(one["state"], one["run"]) for one in judged(project)]


def test_another_default_branch_has_everything_judged_anew(project, documents):
    """What it shows is told at once, and what the one before showed is over."""
    for number in range(12):
        for branch, level in (("main", 2), ("trunk", 5)):
            document = documents.run(number, compiles_steady=level if number > 7 else 0, branch=branch)
            project.post("/runs", document | {"id": f"{branch}-{number}"})
    assert states(project) == [("confirmed", "main-8")]
    project.ask("PATCH", "", 200, json={"default_branch": "trunk"})
    found = {one["run"]: (one["state"], one["after"]) for one in judged(project)}
    assert found == {"trunk-8": ("confirmed", 5.0), "main-8": ("resolved", 2.0)}
    project.ask("PATCH", "", 200, json={"title": "Another"})
    assert judge_new(project.server.service) == 0


@pytest.mark.usefixtures("short")
def test_a_change_that_is_out_of_sight_is_not_over(project, documents):
    """Nobody took it back: only what could be found, and is not, is resolved."""
    for number in range(50):
        project.post("/runs", documents.run(number, compiles_steady=2 if number > 7 else 0))
        if number in {12, 25, 30, 49}:
            assert states(project) == [("confirmed", "run-000008")], number
    for number in range(50, 57):
        project.post("/runs", documents.run(number, compiles_steady=5 if number < 53 else 2))
        if number in {52, 56}:
            state = "confirmed" if number == 52 else "resolved"
            assert states(project) == [(state, "run-000050"), ("confirmed", "run-000008")]
    for number in range(57, 60):
        project.post("/runs", documents.run(number, compiles_steady=0))
    assert {state for state, _ in states(project)} == {"resolved"}


@pytest.mark.usefixtures("short")
def test_a_time_that_became_slower_out_of_sight_is_over_when_it_is_taken_back(project, documents):
    """All of it, but for what noise leaves open: half of it back is no end."""
    levels = [1.0] * 10 + [1.5] * 25 + [1.3] * 6 + [1.0] * 8
    for number, level in enumerate(levels):
        project.post("/runs", documents.run(number, value=noisy(number, level)))
        if number in {20, 40}:
            assert [state for state, _ in states(project)] == ["confirmed"], number
    assert [state for state, _ in states(project)] == ["resolved"]


@pytest.mark.parametrize("state", ["dismissed", "confirmed"])
def test_a_change_is_one_alert_wherever_it_is_seen_to_begin(project, documents, state):
    """In noise its first run is an estimate that moves as points come: what was dismissed is not told again."""
    noise = random.Random(5)
    for number in range(44):
        value = (1.0 if number < 30 else 1.03) * noise.lognormvariate(0, 0.015)
        project.post("/runs", documents.run(number, value=value))
        if number < 34:
            continue
        found = states(project)
        if number == 34:
            assert found == [("confirmed", "run-000029")]
            answer(project, state)
        assert [said for said, _ in found[1:]] == []
        assert states(project)[0][0] == state


def test_a_late_run_that_moves_where_a_count_changed_is_no_new_alert(project, documents):
    """The commit before was measured last: the dismissed change begins there, and is the same."""
    for number in (*range(8), 10, 11):
        project.post("/runs", documents.run(number, compiles_steady=2 if number > 7 else 0))
    assert states(project) == [("confirmed", "run-000010")]
    answer(project, "dismissed")
    project.post("/runs", documents.run(9, compiles_steady=2))
    assert states(project) == [("dismissed", "run-000010")]
    project.post("/runs", documents.run(12, compiles_steady=9))
    assert states(project) == [("open", "run-000012"), ("dismissed", "run-000010")]


def alert(number, run_id, state, *, after=1.1, summary="tpot_s +10% since"):
    """Return an alert as a row of the database."""
    return SimpleNamespace(id=number, run_id=run_id, state=state, before=1.0, after=after, summary=summary)


def same(rows, **more):
    """Return which alert a change at run 30 is."""
    values = {"before": 1.0, "after": 1.1, "near": (30, 29, 31)} | more
    ((_, row),) = matched([Found(run_id=30, at=0, summary="tpot_s +10% since", **values)], rows)
    return row and row.id


def test_what_waits_at_its_run_comes_before_an_answer_nearby():
    """No change that waits for an answer is lost to another one, and a far one is none."""
    assert same([alert(1, 29, "dismissed"), alert(2, 30, "confirmed")]) == 2
    assert same([alert(1, 29, "dismissed"), alert(2, 30, "resolved")]) == 1
    assert same([alert(1, 29, "resolved"), alert(2, 31, "open")]) == 2
    assert same([alert(1, 25, "dismissed")]) is None


def test_a_change_much_larger_than_the_one_that_was_answered_is_told():
    """Who dismissed three in a hundred has not said anything of thirty."""
    rows = [alert(1, 29, "dismissed", after=1.03)]
    assert same(rows, after=1.05) == 1
    assert same(rows, after=1.3) is None


def test_an_answer_given_while_a_series_is_looked_at_stays(project, documents):
    """What was read before is no reason to say otherwise; accepting again mends what an earlier service left."""
    for number in range(12):
        project.post("/runs", documents.run(number, compiles_steady=2 if number > 7 else 0))
    assert states(project) == [("confirmed", "run-000008")]
    service = project.server.service
    with service.database.read() as connection:
        query = select(series).where(series.c.project_id == project.row.id)
        row = SimpleNamespace(**connection.execute(query).one()._mapping, owner="", default_branch="main")
        before = known._known(connection, row, known.CHANGE)
    answer(project, "dismissed")
    found = [Found(run_id=before[0].run_id, at=0, summary="said again")]

    def work(connection):
        known._tell(connection, row, known.CHANGE, [(found[0], before[0])], before, at=1)
        known._resolve(connection, before, 1)

    service.database.write(work)
    assert states(project) == [("dismissed", "run-000008")]
    said = {"case": "tiny/cached", "metric": "compiles_steady", "run": "run-000008", "reason": "as planned"}
    project.post("/accepted", said)
    assert states(project) == [("dismissed", "run-000008")]
    answer(project, "confirmed")
    project.post("/accepted", said)
    assert states(project) == [("accepted", "run-000008")]


def test_what_was_found_before_a_series_was_to_be_judged_anew_is_no_news(project, documents):
    """Whoever looked at it under another default branch, or beside another worker, comes too late."""
    service = project.server.service
    judged(project)
    for number in range(12):
        project.post("/runs", documents.run(number, compiles_steady=2 if number > 7 else 0))

    def look(rows):
        mine = update(series).where(series.c.project_id == project.row.id).values(judged=-1)
        service.database.write(lambda connection: connection.execute(mine).rowcount)
        return judging_series.look_at(service.database, rows)

    assert judging.SeriesJudge(service, look).some() == 1
    assert project.get("/alerts")["alerts"] == []
    assert states(project) == [("confirmed", "run-000008")]
