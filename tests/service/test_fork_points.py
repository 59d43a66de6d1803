"""A run of a branch is judged beside the default branch's runs up to where both parted, and beside nothing later."""

import json
import subprocess
from datetime import timedelta

import pytest

from qwenperf.cli.push import command
from qwenperf.formats.foreign import Told
from qwenperf.service import judging_runs
from qwenperf.service.github import wanted
from qwenperf.service.judging import judge_new
from qwenperf.service.judging_runs import judge_arrived
from qwenperf.service.reading import forked, placed, read_sent

ELSEWHERE = {"platform": "cpu", "cpu_model": "another", "cores": 2}


def sha(number):
    return f"{number:040x}"


@pytest.fixture
def line(project, documents):
    """Sends runs of main and of branches, and judges them."""

    class Line:
        def main(self, *numbers, **metrics):
            for number in numbers:
                project.post("/runs", documents.run(number, **metrics))

        def branch(self, number, *, fork, at="", name=None, status=201, **more):
            document = documents.run(number, branch="topic", **more)
            document["id"] = name or document["id"]
            query = {"fork_point": fork, "forked_at": at}
            project.ask("POST", "/runs", status, json=document, params={key: one for key, one in query.items() if one})
            return document["id"]

        def said(self, run, case="tiny/cached"):
            """Return the run's outcome, and the verdict of its fork point."""
            while judge_arrived(project.server.service):
                pass
            told = project.get(f"/runs/{run}")
            (verdict,) = (one for one in told["verdicts"] if (one["gate"], one["case"]) == ("fork-point", case))
            return told["outcome"], verdict

    return Line()


def test_a_branch_is_compared_with_main_where_it_left_it_and_not_with_what_came_later(line):
    """Main became better and then worse since: neither makes the branch red or green."""
    line.main(0, 1, 2, 3, compiles_steady=2)
    line.main(4, 5, compiles_steady=0)
    line.main(6, compiles_steady=9)
    outcome, verdict = line.said(line.branch(10, fork=sha(3), compiles_steady=2))
    assert (outcome, verdict["outcome"]) == ("pass", "pass")
    assert verdict["detail"] == [f"compared with run run-000003 of {sha(3)[:10]}, where the branch left main"]
    outcome, verdict = line.said(line.branch(11, fork=sha(3), compiles_steady=4))
    assert (outcome, verdict["outcome"], verdict["summary"]) == ("fail", "fail", "compiles_steady 2 -> 4")
    assert line.said(line.branch(12, fork=sha(3), compiles_steady=0))[1]["outcome"] == "improved"


def test_where_the_fork_point_was_not_measured_the_nearest_before_it_stands_for_it(line, documents):
    """And the verdict says so."""
    line.main(0, 3, compiles_steady=2)
    line.main(6, compiles_steady=7)
    at = (documents.FIRST + timedelta(hours=4)).isoformat()
    outcome, verdict = line.said(line.branch(10, fork=sha(4), at=at, compiles_steady=3))
    assert (outcome, verdict["summary"]) == ("fail", "compiles_steady 2 -> 3")
    (told,) = verdict["detail"]
    assert "where the branch left main, has no run that compares" in told
    assert f"run run-000003 of {sha(3)[:10]}, the nearest before it" in told


def test_what_compares_with_nothing_is_said_and_not_judged(line, documents):
    """No run before it, none on such a machine, nobody who knows when the fork point was, a new case."""
    line.main(5, compiles_steady=0)
    before = (documents.FIRST + timedelta(hours=4)).isoformat()
    for run in (
        line.branch(10, fork=sha(4), at=before, compiles_steady=3),
        line.branch(11, fork=sha(5), compiles_steady=3, environment=ELSEWHERE),
        line.branch(12, fork="ab" * 20, compiles_steady=3),
    ):
        outcome, verdict = line.said(run)
        assert (outcome, verdict["outcome"]) == ("pass", "skipped")
        assert "main has no run of this suite in this environment up to" in verdict["summary"]
        assert "Push runs of main" in verdict["advice"]
    run = line.branch(13, fork=sha(5), compiles_steady=3, cases=("tiny/cached", "new"))
    assert line.said(run, "new")[1]["summary"] == "run run-000005 of main has no such case"
    assert line.said(run)[1]["outcome"] == "fail"


def level(number, value):
    """Return a value with noise of a hundredth, the same on every machine."""
    return value * (1 + 0.01 * (((number * 7919) % 101) / 50 - 1))


def test_a_time_is_in_question_at_first_and_a_regression_when_more_runs_of_the_commit_say_so(line):
    """Times of two days are never compared reading by reading."""
    pytest.importorskip("asv")
    for number in range(20):
        line.main(number, tpot_s=level(number, 1.0))
    line.main(21, tpot_s=0.5)
    same = line.branch(30, fork=sha(19), tpot_s=level(30, 1.0))
    assert line.said(same)[1]["outcome"] == "pass"
    for number in range(4):
        run = line.branch(31, fork=sha(19), name=f"slow-{number}", tpot_s=level(40 + number, 1.3))
        outcome, verdict = line.said(run)
        assert (outcome, verdict["outcome"]) == ("inconclusive", "inconclusive")
        assert "in 20 runs before the branch; 5 runs of this commit tell" in verdict["summary"]
    outcome, verdict = line.said(line.branch(31, fork=sha(19), name="slow-5", tpot_s=level(45, 1.3)))
    assert (outcome, verdict["outcome"]) == ("fail", "fail")
    assert "confirmed by 5 runs of this commit" in verdict["summary"]


def test_one_odd_run_among_many_of_its_commit_is_no_regression(line):
    """Nine say that nothing changed."""
    pytest.importorskip("asv")
    for number in range(20):
        line.main(number, tpot_s=level(number, 1.0))
    for number in range(9):
        line.branch(31, fork=sha(19), name=f"fine-{number}", tpot_s=level(40 + number, 1.0))
    outcome, verdict = line.said(line.branch(31, fork=sha(19), name="odd", tpot_s=1.3))
    assert (outcome, verdict["outcome"]) == ("inconclusive", "inconclusive")
    assert "10 runs of this commit show no step" in verdict["summary"]


def test_what_a_branch_changes_is_no_alert_of_the_project(project, line):
    """Neither a fork's run nor that of a branch whose fork point nobody knows; on main it is one."""
    line.main(*range(12), compiles_steady=0)
    line.branch(12, fork=sha(11), compiles_steady=2)
    line.branch(13, fork="", compiles_steady=2)
    while judge_new(project.server.service):
        pass
    assert project.get("/alerts")["alerts"] == []
    line.main(14, compiles_steady=2)
    while judge_new(project.server.service):
        pass
    assert [one["run"] for one in project.get("/alerts")["alerts"]] == ["run-000014"]


def test_a_project_names_its_default_branch(project, line, documents):
    """Runs of the old one are those of a branch then."""
    project.ask("PATCH", "", 200, json={"default_branch": "trunk"})
    assert project.get("")["default_branch"] == "trunk"
    assert project.ask("PATCH", "", 422, json={"default_branch": ""}).json()["error"]
    line.main(3, compiles_steady=0)
    project.post("/runs", documents.run(2, branch="trunk", compiles_steady=5))
    at = (documents.FIRST + timedelta(hours=3)).isoformat()
    _, verdict = line.said(line.branch(10, fork=sha(3), at=at, compiles_steady=5))
    assert (verdict["outcome"], "run run-000002" in verdict["detail"][0]) == ("pass", True)


def test_a_run_that_comes_twice_is_judged_once(project, line):
    """The same content again changes nothing, and a second look finds nothing to do."""
    line.main(3, compiles_steady=0)
    run = line.branch(10, fork=sha(3), compiles_steady=0)
    assert line.said(run) == line.said(run)
    line.branch(10, fork=sha(3), compiles_steady=0, status=200)
    assert line.said(run)[1]["outcome"] == "pass"
    assert project.get(f"/runs/{run}")["fork_point"] == sha(3)


@pytest.mark.parametrize(
    "query",
    [
        {"fork_point": "main"},
        {"fork_point": "-x"},
        {"forked_at": "2026-01-01"},
        {"fork_point": "ab" * 33},
        {"fork_point": "ab" * 20, "forked_at": "2098-01-01"},
    ],
)
def test_a_fork_point_that_is_no_commit_is_refused(project, documents, query):
    """Before anything of the run is kept."""
    assert project.ask("POST", "/runs", 422, json=documents.run(1), params=query).json()["error"]
    assert project.get("/runs")["runs"] == []


def test_push_says_where_the_branch_left_main(project, documents, tmp_path, monkeypatch, capsys):
    """As git knows it in the folder that one pushes from; the record stays what was measured."""

    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "1")
    fork = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "topic")
    git("commit", "-q", "--allow-empty", "-m", "2")
    document = documents.run(1, branch="topic")
    document["commit"]["sha"] = git("rev-parse", "HEAD")
    (tmp_path / "run.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QWENPERF_TOKEN", project.server.admin)
    options = [f"--url={project.server.url}", f"--project={project.name}", "--strict"]
    assert command.main(["run.json", *options], standalone_mode=False) == 0
    capsys.readouterr()
    assert project.get("/runs/run-000001")["fork_point"] == fork
    assert project.get("/runs/run-000001/record")["commit"] == document["commit"]


@pytest.mark.parametrize("branch", ["HEAD", "", "main"])
def test_a_run_of_a_pull_request_is_none_of_main_whatever_its_checkout_is_called(project, line, documents, branch):
    """Git calls it HEAD, or as a fork calls its branch: it is no baseline, and what it breaks is no alert."""
    line.main(*range(12), compiles_steady=0)
    document = documents.run(12, branch=branch, compiles_steady=2)
    project.ask("POST", "/runs", 201, json=document, params={"pull_request": 7})
    while judge_new(project.server.service):
        pass
    assert project.get("/runs/run-000012")["branch"] == "pull/7"
    assert project.get("/alerts")["alerts"] == []


@pytest.mark.parametrize(
    ("branch", "ref", "is_on"),
    [
        ("HEAD", "refs/pull/7/merge", "pull/7"),
        ("main", "refs/pull/7/merge", "pull/7"),
        ("HEAD", "refs/heads/topic/a", "topic/a"),
        ("main", "refs/heads/topic/a", "main"),
        ("topic", "refs/pull/7/merge", "topic"),
        ("HEAD", "refs/tags/v1", "HEAD"),
        ("HEAD", "", "HEAD"),
    ],
)
@pytest.mark.parametrize("event", sorted(wanted._OWN))
def test_a_job_s_identity_says_of_which_branch_a_detached_checkout_is(documents, branch, ref, is_on, event):
    """Where the run names a branch of its own, that is it."""
    job = {"ref": ref, "event_name": event} if ref else {}
    assert placed(arrived_of(documents, branch), None, job, "main").run["branch"] == is_on


@pytest.mark.parametrize("event", ["workflow_run", "pull_request_target", "issue_comment", ""])
def test_a_job_that_works_on_what_strangers_sent_measures_nothing_of_main(documents, event):
    """GitHub calls the default branch its ref: the record is on a branch of its own, unless it names another."""
    job = {"ref": "refs/heads/main", "event_name": event}
    for branch in ("main", "HEAD", ""):
        run = placed(arrived_of(documents, branch), None, job, "main").run
        assert run["branch"] == f"event/{event or 'unknown'}"
    assert placed(arrived_of(documents, "main"), 7, job, "main").run["branch"] == "pull/7"
    assert placed(arrived_of(documents, "topic"), None, job, "main").run["branch"] == "topic"


@pytest.mark.parametrize(
    ("branch", "pull", "ref", "is_on"),
    [
        ("main", 7, "", "pull/7"),
        ("HEAD", None, "refs/pull/7/merge", "pull/7"),
        ("topic", 7, "", "topic"),
        ("HEAD", None, "refs/heads/topic", "topic"),
        ("HEAD", None, "refs/heads/main", "HEAD"),
    ],
)
def test_a_run_that_left_main_is_never_called_main_for_its_sender_s_ref(documents, branch, pull, ref, is_on):
    """A fork's pull request from its own main is none of ours in lists and badges, also where it says where it left."""
    arrived = forked(arrived_of(documents, branch), "a" * 40, None)
    job = {"ref": ref, "event_name": "push"} if ref else {}
    assert placed(arrived, pull, job, "main").run["branch"] == is_on


def arrived_of(documents, branch):
    """Return a run of a branch as it arrives."""
    document = json.dumps(documents.run(1, branch=branch)).encode()
    (arrived,) = read_sent(document, "", Told(modified_at="2026-01-01T00:00:00Z"), "")
    return arrived


def test_what_is_said_of_a_removed_run_is_said_of_no_other(project, line, documents, monkeypatch):
    """SQLite gives its number to the next run, which may come before the verdict is kept."""
    line.main(3, compiles_steady=0)
    judge_arrived(project.server.service)
    read = judging_runs.read_forked

    def slow(connection, row):
        found = read(connection, row)
        project.ask("DELETE", f"/runs/{row.name}", 204)
        project.post("/runs", documents.run(5, compiles_steady=0))
        return found

    document = documents.run(4, branch="topic", compiles_steady=2)
    project.ask("POST", "/runs", 201, json=document, params={"fork_point": sha(3)})
    monkeypatch.setattr(judging_runs, "read_forked", slow)
    judge_arrived(project.server.service)
    said = project.get("/runs/run-000005/verdicts")
    assert (said["outcome"], [one["gate"] for one in said["verdicts"]]) == ("pass", ["shapes"])
