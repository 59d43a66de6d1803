"""A gate that fails on the default branch is an alert until it is kept again; on another branch it is none."""

import pytest

from qwenperf.service.db import gate_alerts
from qwenperf.service.db.tables import alerts
from qwenperf.service.judging_runs import judge_arrived

ELSEWHERE = {"platform": "cpu", "cpu_model": "another", "cores": 2}


@pytest.fixture
def send(project, documents):
    """Sends a run whose gates say what is asked for, judges it, and returns what waits for an answer."""

    def work(number, outcome="pass", *, judge=True, query=None, broken=False, suite="smoke", **more):
        document = documents.run(number, **more) | {"suite": suite}
        for case in document["cases"]:
            said = outcome if isinstance(outcome, str | None) else outcome[case["id"]]
            told = {"gate": "shapes", "outcome": said, "summary": f"{number} compiles after warm-up"}
            case["verdicts"] = [told] if said else []
            if broken:
                case |= {"status": "failed", "error": "out of memory", "metrics": {}}
        project.ask("POST", "/runs", 201, json=document, params=query or {})
        while judge and judge_arrived(project.server.service):
            pass
        return waiting(project)

    return work


def waiting(project):
    """Return what waits for an answer, by case."""
    found = project.get("/alerts")["alerts"]
    return {one["case"]: one for one in found if one["state"] in {"open", "confirmed"}}


def test_a_red_gate_asks_then_is_confirmed_then_is_over(project, send):
    """Told with case, gate, owner, and the run and commit at which it began."""
    project.ask("PATCH", "", 200, json={"owner": "decode team"})
    assert send(1) == {}
    (alert,) = send(2, "fail").values()
    assert (alert["kind"], alert["gate"], alert["case"], alert["state"], alert["owner"]) == (
        "gate", "shapes", "tiny/cached", "open", "decode team",
    )  # fmt: skip
    assert (alert["run"], alert["family"], alert["metric"]) == ("run-000002", f"{2:040x}", None)
    assert alert["summary"] == "shapes fails in run run-000002: 2 compiles after warm-up"
    (alert,) = send(3, "fail").values()
    assert (alert["state"], alert["run"]) == ("confirmed", "run-000002")
    assert "run-000003" in alert["summary"]
    assert len(send(4, "inconclusive")) == len(send(5, "skipped")) == 1
    assert send(6) == {}
    assert [one["state"] for one in project.get("/alerts")["alerts"]] == ["resolved"]
    assert send(7, "fail")["tiny/cached"]["run"] == "run-000007"


def test_all_that_one_commit_broke_is_one_family(project, send):
    """A case that is mended leaves the others."""
    found = send(2, {"a": "fail", "b": "fail", "c": "pass"}, cases=("a", "b", "c"))
    assert set(found) == {"a", "b"}
    assert len({one["family"] for one in found.values()}) == 1
    page = project.http.get(f"/p/{project.name}/alerts").text
    assert "2 alerts, probably of one cause" in page
    assert "a: gate shapes" in page
    assert ": gate shapes" in project.http.get(f"/p/{project.name}").text
    assert set(send(3, {"a": "pass", "b": "fail", "c": "pass"}, cases=("a", "b", "c"))) == {"b"}


@pytest.mark.parametrize("branch", ["topic", "main"])
def test_a_red_branch_is_no_alert(project, send, branch):
    """By its name, or because it says where it left main; its run is red all the same."""
    query = {"fork_point": f"{1:040x}"} if branch == "main" else None
    send(1)
    assert send(2, "fail", branch=branch, query=query) == {}
    assert project.get("/runs/run-000002")["outcome"] == "fail"
    assert send(3, "fail") != {}
    assert send(4, branch=branch, query=query) != {}, "a green branch resolved main's alert"


def test_machines_do_not_answer_for_each_other(send):
    """A budget may hold on one and not on another."""
    send(2, "fail")
    assert len(send(3, environment=ELSEWHERE)) == 1
    assert send(4) == {}


def test_suites_do_not_answer_for_each_other(project, send):
    """Each may hold the same case to budgets of its own: red in one is no second word for the other, nor is green."""
    send(2, "fail")
    send(3, "fail", suite="other")
    assert sorted(one["state"] for one in project.get("/alerts")["alerts"]) == ["open", "open"]
    assert set(send(4, suite="other")) == {"tiny/cached"}
    assert project.get("/alerts", state="open")["alerts"][0]["run"] == "run-000002"
    assert send(5) == {}


def test_a_run_that_comes_late_says_nothing_of_today(project, send):
    """Histories are filled in from behind: neither is what was red once an alert, nor what is red mended."""
    send(5)
    assert send(2, "fail") == {}
    send(6, "fail")
    assert len(send(3)) == 1
    send(7, "fail", judge=False)
    send(8, judge=False)
    assert send(9) == {}
    assert [one["state"] for one in project.get("/alerts")["alerts"]] == ["resolved"]


def test_what_somebody_dismissed_stays_so_until_the_gate_is_kept(project, send):
    """Every red run would be a new alert otherwise."""
    send(2, "fail")
    mine = alerts.c.project_id == project.row.id
    dismissed = alerts.update().where(mine).values(state="dismissed")
    project.server.service.database.write(lambda connection: connection.execute(dismissed).rowcount)
    assert send(3, "fail") == {}
    assert send(4) == {}
    assert send(5, "fail")["tiny/cached"]["run"] == "run-000005"


def test_a_gate_of_a_case_that_was_removed_is_over_with_a_word(project, send):
    """Told by two whole runs of its suite: one alone may be of chosen cases, and a broken case has no verdict."""
    both = {"a": "fail", "b": "pass"}
    send(1, both, cases=("a", "b"))
    assert set(send(2, both, cases=("a", "b"))) == {"a"}
    assert set(send(3, cases=("b",))) == {"a"}
    assert set(send(4, both, cases=("a", "b"))) == {"a"}
    assert set(send(5, cases=("b",))) == {"a"}
    assert set(send(6, cases=("c",))) == {"a"}, "another part of the suite"
    assert send(7, cases=("b",)) == {}
    (alert,) = project.get("/alerts")["alerts"]
    assert alert["state"] == "resolved"
    assert alert["summary"] == "shapes is checked no more: neither run run-000007 nor the one before has it"


def test_a_gate_that_is_checked_no_more_is_over_and_one_of_a_broken_case_is_not(send):
    """A case that is measured and not judged has lost its budget; one that cannot run has lost nothing."""
    send(1, "fail")
    assert len(send(2, None, broken=True)) == len(send(3, None, broken=True)) == 1
    assert len(send(4, None)) == 1
    assert send(5, None) == {}


def test_an_answer_given_while_a_run_is_looked_at_stays(project, send, monkeypatch):
    """What was read before is no reason to say otherwise."""
    send(1, "fail")
    read = gate_alerts._current

    def late(connection, run):
        found = read(connection, run)
        connection.execute(alerts.update().where(alerts.c.project_id == project.row.id).values(state="dismissed"))
        return found

    monkeypatch.setattr(gate_alerts, "_current", late)
    assert send(2, "fail") == {}
    assert [one["state"] for one in project.get("/alerts")["alerts"]] == ["dismissed"]
