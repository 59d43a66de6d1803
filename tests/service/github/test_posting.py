"""What arrives in a linked project, on GitHub: which records are one check and one comment, and who posts when."""

import re
import time

import pytest

from qwenperf.service.db import github as posts
from qwenperf.service.judging_runs import judge_arrived

# As the stand-in for GitHub has them.
REPOSITORY, FORK, SHA, OTHER = "acme/engine", "stranger/engine", "a" * 40, "b" * 40


def test_a_project_that_is_not_linked_posts_nothing(demo, github):
    """Whatever a record says of itself."""
    demo.push(demo.run(environment={"GITHUB_REPOSITORY": REPOSITORY, "repository": REPOSITORY}), pull_request=7)
    assert (demo.post(), demo.posts(), github.requests) == (0, [], [])
    demo.ask("GET", "/github", 404)


def test_a_run_is_a_check_and_a_comment_with_a_link_to_its_page(demo, github):
    """On the commit, and on the open pull request whose branch and newest commit it is."""
    demo.link(tokens=True)
    run = demo.push(demo.run(outcome="fail"))
    assert demo.post() == 1
    (check,), (comment,) = github.checks, github.comments
    place = f"{demo.public_url}/p/demo/runs/{run}"
    assert (check["name"], check["head_sha"], check["conclusion"]) == ("qwenperf/demo", SHA, "failure")
    assert (check["details_url"], check["status"]) == (place, "completed")
    assert re.match(r"<!-- qwenperf: qwenperf-demo [0-9a-f]{12} -->\n###", comment["body"])
    assert f"[details]({place})" in comment["body"]
    (post,) = demo.posts()
    assert (post["state"], post["run"], post["commit"], post["problem"]) == ("sent", run, SHA, "")
    assert (post["check"], post["comment"]) == ("https://example.test/check/1", "https://example.test/c/1")
    for page in (demo.page(run), demo.page(run, "")):
        assert "GitHub was told." in page
        assert 'href="https://example.test/c/1"' in page
    assert {one["headers"].get("Authorization") for one in github.requests} == {f"Bearer {demo.secret}"}


@pytest.mark.parametrize(("outcome", "concluded"), [("pass", "success"), ("inconclusive", "neutral")])
def test_a_required_check_is_red_only_where_a_job_would_fail(demo, github, outcome, concluded):
    """Noise lets a pull request through."""
    demo.link(tokens=True)
    demo.push(demo.run(outcome=outcome))
    demo.post()
    assert [one["conclusion"] for one in github.checks] == [concluded]


def test_a_comparison_is_told_of_its_head(demo, github):
    """Its page is linked; the number of its pull request comes from whoever sent it."""
    demo.link(tokens=True)
    document = demo.documents.comparison()
    document["head"]["commit"]["sha"] = SHA
    name = demo.push(document, kind="comparisons", pull_request=7)
    demo.post()
    assert github.checks[0]["details_url"] == f"{demo.public_url}/p/demo/comparisons/{name}"
    assert len(github.comments) == 1
    answer = demo.server.ask("GET", f"/p/demo/comparisons/{name}", "", headers={"Accept": "text/html"})
    assert "GitHub was told." in answer.text


def test_two_suites_of_a_commit_are_one_check_and_one_comment(demo, github):
    """A green one does not hide a red one, and a run that was measured again counts instead of the first."""
    demo.link(tokens=True)
    demo.push(demo.run(1, outcome="fail", suite="smoke"))
    demo.push(demo.run(2, outcome="pass", suite="ladder"))
    assert demo.post() == 2
    assert [one["conclusion"] for one in github.checks] == ["failure"]
    (comment,) = github.comments
    assert comment["body"].index("suite `smoke`") < comment["body"].index("suite `ladder`")
    demo.push(demo.run(3, outcome="pass", suite="smoke"))
    demo.post()
    assert [one["conclusion"] for one in github.checks] == ["failure", "success"]
    (comment,) = github.comments
    assert "run-000001" not in comment["body"]
    assert comment["body"].count("suite `") == 2


def test_a_pull_request_of_a_fork_is_found_by_its_number_and_never_by_its_branch(demo, github):
    """Anybody may name a branch of theirs like one of ours; a number that is not this commit's changes nothing."""
    demo.link(tokens=True)
    github.pulls[0]["head"] = FORK
    demo.push(demo.run(1))
    demo.post()
    assert (len(github.checks), len(github.comments)) == (1, 0)
    demo.push(demo.run(2, sha=OTHER, suite="other"), pull_request=7)
    demo.post()
    assert (len(github.checks), len(github.comments)) == (2, 0)
    demo.push(demo.run(3, suite="third"), pull_request=7)
    demo.post()
    assert (len(github.checks), len(github.comments)) == (3, 1)


def test_a_run_is_told_of_as_the_project_s_budgets_judge_it(demo, github):
    """Not as it judged itself; a budget for another suite is no fault of this one."""
    budgets = {"tiny/*": {"compiles_steady": {"max": 0}}, "elsewhere/*": {"compiles_steady": {"max": 0}}}
    demo.ask("PATCH", "", 200, json={"budgets": budgets})
    demo.link(tokens=True)
    for number, compiles in enumerate((2, 0)):
        run = demo.documents.run(number, branch="topic", compiles_steady=compiles)
        run["commit"]["sha"] = SHA
        demo.push(run)
        demo.post()
    assert github.checks[0]["conclusion"] == "failure"
    assert github.checks[1]["conclusion"] != "failure"


def test_a_post_is_one_worker_s_and_a_dead_one_s_is_another_s(demo):
    """Two at once would overwrite what each other said; other projects do not wait for it."""
    demo.link(tokens=True)
    for number in range(2):
        demo.push(demo.run(number))

    def claimed():
        now = demo.server.clock()
        return demo.server.service.database.write(lambda connection: posts.claim(connection, now, judges=False))

    first = claimed()
    assert (first.tries, claimed()) == (1, None)
    demo.server.clock.ahead_s += 301
    again = claimed()
    assert (again.id, again.tries, claimed()) == (first.id, 2, None)


def test_a_long_queue_of_one_project_keeps_no_other_waiting(demo, monkeypatch):
    """While one of its posts is under way, the rest of its queue is not looked at."""
    monkeypatch.setattr(posts, "_CANDIDATES", 1)
    demo.link(tokens=True)
    for number in range(2):
        demo.push(demo.run(number))
    admin, service = demo.server.admin, demo.server.service
    link = {"repository": REPOSITORY, "repository_id": "4711", "tokens": True}
    for method, path, sent in (
        ("POST", "", {"project": "other"}), ("PUT", "/other/github", link), ("POST", "/other/runs", demo.run(3)),
    ):  # fmt: skip
        assert demo.server.ask(method, f"/api/v1/projects{path}", admin, json=sent).is_success

    def claimed():
        now = demo.server.clock()
        return service.database.write(lambda connection: posts.claim(connection, now, judges=False))

    assert [claimed().project for _ in range(2)] == ["demo", "other"]
    assert claimed() is None


def test_the_same_record_again_is_told_once(demo, github):
    """A push that is tried again adds nothing."""
    demo.link(tokens=True)
    for _ in range(2):
        demo.push(demo.run())
        demo.post()
    assert len(github.checks) == len(github.comments) == len(demo.posts()) == 1


def test_a_run_is_told_of_as_it_was_judged_here(serving):
    """It waits for that, but not for ever."""
    for demo in serving(judge=True):
        demo.link(tokens=True)
        demo.push(demo.run(1))
        assert demo.post() == 0
        judge_arrived(demo.server.service)
        assert demo.post() == 1
        demo.push(demo.run(2, suite="other"))
        assert demo.post() == 0
        demo.server.clock.ahead_s += 61
        assert demo.post() == 1


def test_a_run_that_is_judged_late_is_told_of_again(serving, github):
    """A check that was green before anybody had looked becomes red; where judging changes nothing, nothing is told."""
    for demo in serving(judge=True):
        demo.link(tokens=True)
        fork = {"fork_point": f"{1:040x}", "forked_at": "2026-01-01T01:00:00Z"}
        documents = demo.documents
        demo.push(documents.run(1, compiles_steady=0))
        slow, fine = (
            demo.push(documents.run(number, branch="topic", compiles_steady=compiles), **fork)
            for number, compiles in ((2, 2), (3, 0))
        )
        demo.server.clock.ahead_s += 61
        while demo.post():
            pass
        concluded = [one["conclusion"] for one in github.checks if one["head_sha"] == f"{2:040x}"]
        assert concluded == ["success"]
        judge_arrived(demo.server.service)
        while demo.post():
            pass
        assert [one["conclusion"] for one in github.checks if one["head_sha"] == f"{2:040x}"][-1] == "failure"
        told = [one["run"] for one in demo.posts()]
        assert (told.count(slow), told.count(fine)) == (2, 1)


def test_the_service_posts_by_itself(serving, github):
    """A thread beside the answers does; what it is told of a commit arrives without anybody asking."""
    for demo in serving(sweep_s=60.0):
        demo.link(tokens=True)
        demo.push(demo.run())
        ends = time.monotonic() + 20
        while not github.comments and time.monotonic() < ends:
            time.sleep(0.05)
        assert len(github.comments) == 1
