"""The commit that is measured is asked of git."""

import subprocess

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
