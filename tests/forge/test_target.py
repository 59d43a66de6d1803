"""Whose commit and whose pull request: what the event says, and GitHub."""

import pytest

from qwenperf.errors import UsageError
from qwenperf.forge.target import Target, target_of, with_pulls

SHA, OTHER, REPOSITORY = "a" * 40, "b" * 40, "acme/engine"


def workflow_run(**fields):
    """The event that a run of a fork's pull request has ended."""
    run = {
        "id": 5,
        "event": "pull_request",
        "head_sha": SHA,
        "head_branch": "topic",
        "head_repository": {"full_name": "stranger/engine"},
        "pull_requests": [],
        **fields,
    }
    return {"workflow_run": run, "repository": {"full_name": REPOSITORY}}


def test_a_pull_request_is_its_head_and_not_the_merge():
    """GITHUB_SHA is a merge that nobody will see."""
    event = {"number": 7, "pull_request": {"head": {"sha": SHA}}, "repository": {"full_name": REPOSITORY}}
    assert target_of("pull_request", event, REPOSITORY, OTHER) == Target(repository=REPOSITORY, sha=SHA, pulls=(7,))


@pytest.mark.parametrize(
    ("name", "event", "sha"),
    [
        ("push", {"after": SHA}, SHA),
        ("merge_group", {"merge_group": {"head_sha": SHA}}, SHA),
        ("schedule", {}, OTHER),
    ],
)
def test_other_events_have_a_commit_and_no_pull_request(name, event, sha):
    """A check is all there is to make."""
    assert target_of(name, event, REPOSITORY, OTHER) == Target(repository=REPOSITORY, sha=sha)


@pytest.mark.usefixtures("github")
def test_a_review_is_about_the_pull_request_s_head():
    """Its job has the merge for its commit, and no pull request shows a check on that."""
    event = {"pull_request": {"number": 7, "head": {"sha": SHA}}, "repository": {"full_name": REPOSITORY}}
    wanted = Target(repository=REPOSITORY, sha=SHA, pulls=(7,))
    assert target_of("pull_request_review", event, REPOSITORY, OTHER) == wanted


def test_a_fork_s_pull_request_is_found_by_its_head(api):
    """The event does not name it; GitHub is asked for the open one of that branch."""
    found = with_pulls(target_of("workflow_run", workflow_run()), api)
    assert (found.pulls, found.sha, found.run) == ((7,), SHA, 5)


def test_a_pull_request_that_moved_on_is_left_alone(api, github):
    """An older run that ends last does not overwrite what a newer one said."""
    github.pulls[0]["sha"] = OTHER
    assert with_pulls(target_of("workflow_run", workflow_run()), api).pulls == ()
    assert with_pulls(Target(repository=REPOSITORY, sha=SHA, pulls=(7,)), api).pulls == ()


def test_a_branch_of_the_same_name_elsewhere_is_another(api, github):
    """The repository of the head counts, too: one owner may have several forks."""
    github.pulls[0]["head"] = "stranger/other"
    assert with_pulls(target_of("workflow_run", workflow_run()), api).pulls == ()


def test_a_run_of_a_push_has_no_pull_request(api, github):
    """Nobody is asked."""
    found = with_pulls(target_of("workflow_run", workflow_run(event="push")), api)
    assert (found.pulls, github.requests) == ((), [])


@pytest.mark.parametrize(
    ("name", "event", "repository", "told"),
    [
        ("push", {"after": SHA, "repository": {"full_name": "acme/other"}}, REPOSITORY, "about acme/other"),
        ("push", {"after": SHA}, "", "no repository"),
        ("push", {"after": SHA}, "../engine", "no repository"),
        ("push", {"after": SHA}, "acme/..", "no repository"),
        ("push", {"after": "main"}, REPOSITORY, "no commit"),
        ("push", {"after": SHA + "\n"}, REPOSITORY, "no commit"),
        ("pull_request", {"number": "7/../8"}, REPOSITORY, "no number"),
        ("pull_request", {"number": True}, REPOSITORY, "no number"),
        ("workflow_run", {}, REPOSITORY, "no workflow run"),
        ("workflow_run", workflow_run(head_sha=None), REPOSITORY, "no commit"),
    ],
)
def test_what_says_nothing_sensible_is_refused(name, event, repository, told):
    """Before any request."""
    with pytest.raises(UsageError, match=told):
        target_of(name, event, repository)
