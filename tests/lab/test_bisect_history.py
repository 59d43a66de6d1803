"""Commits between two ends, of a real git repository with a merged branch."""

import subprocess

import pytest

from qwenperf.errors import UsageError
from qwenperf.lab.bisect_history import find_ends, parents_of
from qwenperf.lab.revisions import Repository


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=A. Uthor", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository: two commits, a branch of two that is merged, one more; and one that shares nothing."""
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q", "-b", "main")

    def commit(name):
        git(root, "commit", "-q", "--allow-empty", "-m", name)
        git(root, "tag", name.split()[0].strip(":"))

    commit("first")
    commit("second")
    git(root, "checkout", "-q", "-b", "topic")
    commit("third on a branch")
    commit("fourth")
    git(root, "checkout", "-q", "main")
    commit("fifth")
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    git(root, "tag", "merge")
    git(root, "commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
    git(root, "tag", "silent")
    commit("last: what | it, does")
    git(root, "checkout", "-q", "--orphan", "other")
    commit("alone")
    git(root, "checkout", "-q", "main")
    return Repository(root=root, cache=root / "cache")


def test_commits_come_with_their_parents_first(repository):
    """Those of merged branches too; each with author, date and subject."""
    ends = find_ends(repository, "first", "last")
    parents = parents_of(ends, first_parent=False)
    assert [one.subject for one in ends.commits][-2:] == ["", "last: what | it, does"]
    assert {one.subject for one in ends.commits} >= {"third on a branch", "fifth"}
    seen = {ends.good.sha}
    for sha, each in parents.items():
        assert set(each) <= seen
        seen.add(sha)
    assert ends.bad.author == "A. Uthor"
    assert ends.bad.date[:2] == "20"
    assert len(parents[repository.resolve("merge")]) == 2
    assert find_ends(repository, "merge", "silent").bad.subject == ""


def test_the_first_parents_alone_take_a_branch_as_one_commit(repository):
    """As a project wants it whose branches are not each fit to run."""
    ends = find_ends(repository, "first", "last", first_parent=True)
    assert [one.subject for one in ends.commits] == ["second", "fifth", "merge", "", "last: what | it, does"]
    assert {len(each) for each in parents_of(ends, first_parent=True).values()} == {1}


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        ("last", "first", "--good last is newer than --bad first"),
        ("first", "first", "are the same commit"),
        ("fourth", "fifth", "--good fourth is no ancestor of --bad fifth. They have"),
        ("alone", "last", "They share no history"),
        ("nowhere", "last", "'nowhere' is no commit of"),
        ("first", "--help", "'--help' is no commit of"),
    ],
)
def test_ends_in_a_wrong_order_are_refused(repository, good, bad, told):
    """With what would be right."""
    with pytest.raises(UsageError) as error:
        find_ends(repository, good, bad)
    assert told in str(error.value)
