"""The package that is imported is the commit's, or nothing is measured."""

import subprocess
import sys

import pytest

from qwenperf.asv_plugin.provenance import check_commit
from qwenperf.errors import EnvironmentUnfitError


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository whose package ``measured_here`` is imported from its working tree, at its second commit."""
    package = tmp_path / "measured_here"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n")
    (package / "inner" / "more.py").write_text("y = 'ü'\n", encoding="utf-8")
    (package / "data.txt").write_text("z\n")
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    (package / "__init__.py").write_text("x = 2\n")
    git(tmp_path, "commit", "-qam", "second")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ASV_COMMIT", raising=False)
    yield tmp_path
    sys.modules.pop("measured_here", None)


def test_what_is_head_is_measured(checkout):
    """The commit's hash is returned, also from a file deep in the repository."""
    assert check_commit("measured_here", checkout / "measured_here" / "data.txt") == git(checkout, "rev-parse", "HEAD")


def test_another_commit_than_asv_says_is_refused(checkout, monkeypatch):
    """The trap of asv: what is imported shadows what was installed."""
    first = git(checkout, "rev-parse", "HEAD~1")
    monkeypatch.setenv("ASV_COMMIT", first)
    with pytest.raises(EnvironmentUnfitError, match=rf"is not commit {first[:10]}'s: __init__\.py differs\. Commit"):
        check_commit("measured_here", checkout)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda package: (package / "inner" / "more.py").write_text("y = 2\n"), "inner/more.py differs"),
        (lambda package: (package / "inner" / "more.py").unlink(), "inner/more.py is missing"),
        (lambda package: (package / "left.py").write_text(""), "left.py is not in the commit"),
        (lambda package: (package / "data.txt").write_text("other\n"), "data.txt differs"),
    ],
)
def test_a_file_that_differs_is_named(checkout, change, told):
    """Changed, missing, left over from an earlier installation."""
    change(checkout / "measured_here")
    with pytest.raises(EnvironmentUnfitError, match=told):
        check_commit("measured_here", checkout)


def test_what_a_build_makes_and_a_wheel_leaves_out_is_no_difference(checkout):
    """Byte code, files that were declared, data that is not shipped."""
    package = checkout / "measured_here"
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"1")
    (package / "_version.py").write_text("v = 1\n")
    (package / "data.txt").unlink()
    assert check_commit("measured_here", checkout, generated=("_version.py",))


def test_a_package_in_another_folder_is_found(checkout):
    """A source layout: its folder in the repository is said."""
    git(checkout, "mv", "measured_here", "elsewhere")
    git(checkout, "commit", "-qam", "move")
    (checkout / "elsewhere").rename(checkout / "measured_here")
    assert check_commit("measured_here", checkout, tree="elsewhere")
    with pytest.raises(EnvironmentUnfitError, match="has no folder measured_here"):
        check_commit("measured_here", checkout)


def test_without_a_package_or_a_repository_nothing_is_measured(checkout):
    """Both are told in words."""
    with pytest.raises(EnvironmentUnfitError, match="there is no package nothing_here"):
        check_commit("nothing_here", checkout)
    with pytest.raises(EnvironmentUnfitError, match="git does not say what is measured"):
        check_commit("measured_here", "/")
