"""The commit that is measured is asked of git."""

import subprocess

import pytest

from qwenperf.lab.commit import describe_commit


def git(folder, *arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_checkout_has_a_commit_and_says_whether_it_was_changed(tmp_path):
    """Changes to tracked files make it dirty; new files, such as runs, do not."""
    git(tmp_path, "init", "-b", "trunk")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "run.json").write_text("{}")
    clean = describe_commit(tmp_path)
    assert len(clean["sha"]) == 40
    assert (clean["branch"], clean["dirty"]) == ("trunk", False)
    (tmp_path / "file").write_text("two")
    assert describe_commit(tmp_path)["dirty"] is True


def test_without_a_checkout_or_a_commit_there_is_nothing_to_say(tmp_path):
    """No repository, no folder, no commit yet: an empty description, no error."""
    assert describe_commit(tmp_path / "absent") == {}
    git(tmp_path, "init")
    assert describe_commit(tmp_path) == {}


@pytest.mark.parametrize(
    ("told", "branch"),
    [
        ({"GITHUB_SHA": "SHA", "GITHUB_REF": "refs/heads/topic/a"}, "topic/a"),
        ({"CI_COMMIT_SHA": "SHA", "CI_COMMIT_BRANCH": "topic"}, "topic"),
        ({"GITHUB_SHA": "SHA", "GITHUB_REF": "refs/pull/7/merge"}, "HEAD"),
        ({"GITHUB_SHA": "0" * 40, "GITHUB_REF": "refs/heads/topic"}, "HEAD"),
        ({"CI_COMMIT_SHA": "0" * 40, "CI_COMMIT_BRANCH": "topic"}, "HEAD"),
        ({}, "HEAD"),
    ],
)
def test_the_branch_of_a_detached_checkout_is_what_its_job_says(tmp_path, monkeypatch, told, branch):
    """A job checks out a commit and no branch; what it says of another commit is nothing here."""
    git(tmp_path, "init", "-b", "trunk")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    for name in ("GITHUB_SHA", "GITHUB_REF", "CI_COMMIT_SHA", "CI_COMMIT_BRANCH"):
        monkeypatch.delenv(name, raising=False)
    sha = describe_commit(tmp_path)["sha"]
    for name, value in told.items():
        monkeypatch.setenv(name, sha if value == "SHA" else value)
    assert describe_commit(tmp_path)["branch"] == "trunk"
    git(tmp_path, "checkout", "--detach")
    assert describe_commit(tmp_path)["branch"] == branch


@pytest.mark.parametrize(("is_main", "branch"), [(True, "HEAD"), (False, "refs/tags/v1.0.1")])
def test_a_detached_checkout_of_a_tag_is_of_the_main_branch_only_where_that_has_it(
    tmp_path, monkeypatch, is_main, branch
):
    """A repair of an old release is no point of the main branch's history."""
    for name in ("GITHUB_SHA", "GITHUB_REF", "CI_COMMIT_SHA", "CI_COMMIT_BRANCH"):
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    git(tmp_path, "checkout", *([] if is_main else ["-b"]), "main" if is_main else "releases")
    git(tmp_path, "commit", "--allow-empty", "-m", "repaired")
    git(tmp_path, "tag", "v1.0.1")
    git(tmp_path, "checkout", "v1.0.1")
    assert describe_commit(tmp_path)["branch"] == branch
