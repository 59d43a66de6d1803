"""Where a branch left the main one, as real git knows it, or the CI that merged the two."""

import json
import subprocess

import pytest

from qwenperf.cli.push_fork import fork_query


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A repository with two commits on main, one on a branch that left it at the first, and a shallow clone of that."""
    root = tmp_path_factory.mktemp("git") / "repository"
    root.mkdir()

    def git(*words, folder=root):
        command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    commits = {}
    for name in ("first", "second"):
        git("commit", "-q", "--allow-empty", "-m", name)
        commits[name] = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "topic", commits["first"])
    git("commit", "-q", "--allow-empty", "-m", "on the branch")
    commits["branch"] = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    shallow = root.with_name("shallow")
    git("clone", "-q", "--depth=1", "--branch=topic", root.as_uri(), str(shallow))
    return root, shallow, commits, git


def test_git_knows_the_fork_point_and_when_it_was(made):
    """Of the commit that was measured, whatever is checked out now."""
    root, _, commits, git = made
    told = fork_query({"sha": commits["branch"]}, root, {})
    assert told == {
        "fork_point": commits["first"],
        "forked_at": git("show", "--no-patch", "--format=%cI", commits["first"]),
    }


def test_a_run_of_main_left_it_nowhere_unless_its_tree_was_changed(made):
    """Also one of an older commit of main."""
    root, _, commits, _ = made
    for name in ("first", "second"):
        assert fork_query({"sha": commits[name], "dirty": False}, root, {}) == {}
    assert fork_query({"sha": commits["second"], "dirty": True}, root, {})["fork_point"] == commits["second"]


def test_main_ahead_of_what_is_pushed_is_still_main(made, tmp_path):
    """A stranger's branch of that name, measured for a pull request, is not."""
    root, _, commits, git = made
    ahead = tmp_path / "ahead"
    git("clone", "-q", root.as_uri(), str(ahead))
    git("commit", "-q", "--allow-empty", "-m", "not pushed yet", folder=ahead)
    commit = {"sha": git("rev-parse", "HEAD", folder=ahead), "branch": "main", "dirty": False}
    assert fork_query(commit, ahead, {}) == {}
    assert fork_query(commit, ahead, {"GITHUB_EVENT_NAME": "pull_request"})["fork_point"] == commits["second"]


@pytest.mark.parametrize("commit", [{}, {"sha": None}, {"sha": "HEAD"}, {"sha": "--output=x"}, {"sha": "ab" * 20}])
def test_what_git_does_not_know_is_not_guessed(made, tmp_path, commit):
    """No commit, a commit of elsewhere, no repository."""
    root, shallow, commits, _ = made
    assert fork_query(commit, root, {}) == {}
    assert fork_query({"sha": commits["branch"]}, shallow, {}) == {}
    assert fork_query({"sha": commits["branch"]}, tmp_path, {}) == {}


def event(folder, document):
    file = folder / "event.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(file)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("pull_request", {"pull_request": {"base": {"sha": "b" * 40}}}),
        ("merge_group", {"merge_group": {"base_sha": "b" * 40}}),
    ],
)
def test_a_job_without_history_is_told_by_its_event(made, tmp_path, name, document):
    """GitHub checks out the merge of a pull request alone; its event says what it was merged into."""
    _, shallow, commits, _ = made
    job = {"GITHUB_EVENT_NAME": name, "GITHUB_SHA": commits["branch"], "GITHUB_EVENT_PATH": event(tmp_path, document)}
    assert fork_query({"sha": commits["branch"]}, shallow, job) == {"fork_point": "b" * 40}
    assert fork_query({"sha": "c" * 40}, shallow, job) == {}, "the event is of another commit"
    assert fork_query({"sha": commits["branch"]}, shallow, job | {"GITHUB_EVENT_NAME": "push"}) == {}


def test_a_job_that_checked_out_the_head_of_a_pull_request_is_told_by_its_event(made, tmp_path):
    """Which is not the merge that the job is of; any other commit is none of the event's."""
    _, shallow, commits, _ = made
    document = {"pull_request": {"base": {"sha": "b" * 40}, "head": {"sha": commits["branch"]}}}
    job = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_SHA": "c" * 40, "GITHUB_EVENT_PATH": event(tmp_path, document)}
    assert fork_query({"sha": commits["branch"]}, shallow, job) == {"fork_point": "b" * 40}
    assert fork_query({"sha": "d" * 40}, shallow, job) == {}


@pytest.mark.parametrize("document", ["{", "[]", {"pull_request": 3}, {"pull_request": {"base": {"sha": "--x"}}}])
def test_an_event_that_says_nothing_is_nothing(made, tmp_path, document):
    """Nor is one that is not there."""
    _, shallow, commits, _ = made
    path = event(tmp_path, document)
    job = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_SHA": commits["branch"]}
    for place in (path, f"{path}.missing"):
        assert fork_query({"sha": commits["branch"]}, shallow, job | {"GITHUB_EVENT_PATH": place}) == {}


def test_gitlab_names_the_base_of_a_merge_request(made):
    """In a variable of the job."""
    _, shallow, commits, _ = made
    job = {"CI_COMMIT_SHA": commits["branch"], "CI_MERGE_REQUEST_DIFF_BASE_SHA": "d" * 40}
    assert fork_query({"sha": commits["branch"]}, shallow, job) == {"fork_point": "d" * 40}
