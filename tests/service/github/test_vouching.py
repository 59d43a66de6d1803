"""By whose word a record is of a commit: GitHub's for a job, an admin's for tokens, and nobody else's."""

import pytest

from qwenperf.service.github.wanted import Link, Sent, wanted

# As the stand-in for GitHub has them; the merge is what a job of its pull request measures.
REPOSITORY, SHA, OTHER, MERGE = "acme/engine", "a" * 40, "b" * 40, "c" * 40


def test_tokens_do_not_count_unless_an_admin_says_so(demo, github):
    """Only GitHub's word for a job does; the page says why to who can change that, and to nobody else."""
    demo.link()
    run = demo.push(demo.run(), pull_request=7, head_sha=SHA)
    assert (demo.post(), github.requests) == (0, [])
    assert [one["state"] for one in demo.posts()] == ["refused"]
    assert "pushed with a token" in demo.page(run)
    assert "pushed with a token" not in demo.page(run, "")


def test_a_job_of_a_pull_request_is_told_of_at_its_head(demo, github):
    """What it measured is a merge that nobody sees: GitHub says of which head, and the record's branch says nothing."""
    demo.link()
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE, branch="HEAD"), token)
    demo.post()
    assert [one["head_sha"] for one in github.checks] == [SHA]
    assert len(github.comments) == 1
    assert [(one["commit"], one["pull_request"]) for one in demo.posts()] == [(SHA, 7)]


@pytest.mark.parametrize(("said", "told"), [({}, 0), ({"head_sha": OTHER}, 0), ({"head_sha": SHA}, 1)])
def test_a_pull_request_that_moved_on_keeps_what_its_newest_commit_says(demo, github, said, told):
    """The merge is another: of a newer commit, or of a newer base, which only the job can tell apart."""
    demo.link()
    github.merge = "d" * 40
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE), token, **said)
    demo.post()
    assert len(github.checks) == len(github.comments) == told
    assert [one["state"] for one in demo.posts()] == ["sent" if told else "failed"]


def test_a_merge_that_github_has_not_made_anew_yet_says_nothing_of_the_new_head(demo, github):
    """Right after a push the pull request has the new head and the old head's merge."""
    demo.link()
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE), token, head_sha=OTHER)
    demo.post()
    assert github.checks == []
    assert [one["state"] for one in demo.posts()] == ["failed"]


def test_a_job_of_a_branch_is_told_of_at_its_commit(demo, github):
    """And in the pull request of that branch."""
    demo.link()
    demo.push(demo.run(branch="other"), demo.job(ref="refs/heads/topic", sha=SHA, event_name="push"))
    demo.post()
    assert ([one["head_sha"] for one in github.checks], len(github.comments)) == ([SHA], 1)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"repository_id": "1", "repository": "acme/other"}, "a job of acme/other pushed it"),
        ({"event_name": "workflow_run"}, "may carry a stranger's record"),
        ({"event_name": "pull_request_target"}, "may carry a stranger's record"),
        ({"sha": OTHER}, f"it is of commit {SHA[:12]}, and the job that pushed it is of {OTHER[:12]}"),
        ({"ref": "refs/pull/7/merge", "sha": MERGE}, "it is of commit"),
    ],
)
def test_a_record_that_its_job_does_not_vouch_for_is_not_told_of(demo, github, claims, why):
    """A job may carry what a stranger's code wrote, about any commit and any pull request."""
    demo.link()
    token = demo.job(**{"ref": "refs/heads/main", "sha": SHA, "event_name": "push"} | claims)
    demo.push(demo.run(), token, pull_request=7)
    assert (demo.post(), github.requests) == (0, [])
    (post,) = demo.posts()
    assert post["state"] == "refused"
    assert why in post["problem"]


def test_a_repository_that_took_over_the_name_is_told_nothing(demo, github):
    """An id cannot be taken over."""
    demo.link(tokens=True)
    github.number = 4712
    demo.push(demo.run())
    demo.post()
    assert (github.checks, github.comments) == ([], [])
    assert "id 4712, and not 4711" in demo.posts()[0]["problem"]


def test_a_project_that_is_linked_elsewhere_meanwhile_tells_nobody(demo, github):
    """What was meant for one repository is nobody else's business."""
    demo.link(tokens=True)
    demo.push(demo.run())
    demo.link(tokens=True, repository="acme/other", repository_id="5")
    demo.post()
    assert github.requests == []
    assert "another repository by now" in demo.posts()[0]["problem"]


def test_what_is_sent_beside_a_record_is_checked(demo):
    """A pull request is a number, a commit has all its digits."""
    for query in ({"pull_request": "0"}, {"pull_request": "x"}, {"head_sha": "main"}):
        demo.ask("POST", "/runs", 422, json=demo.run(), params=query)


def test_a_record_without_a_commit_is_its_job_s():
    """Files of other tools name none; a token vouches for nothing."""
    job = {"repository_id": "1", "event_name": "push", "sha": SHA, "ref": "refs/heads/main"}
    link = Link(repository_id="1", repository=REPOSITORY, tokens=True)
    assert wanted(link, Sent(commit="", kind="oidc", job=job)).sha == SHA
    assert "names no commit" in wanted(link, Sent(commit="", job={})).refused
    assert "names no commit" in wanted(link, Sent(commit=SHA[:12], job={})).refused
