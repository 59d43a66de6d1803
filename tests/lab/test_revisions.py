"""Revisions of a real git repository, made for the test."""

import errno
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.errors import MeasurementError, OutputError, UsageError
from qwenperf.lab.compare import same_code
from qwenperf.lab.revisions import LOCK, Repository, default_cache, install, same_files
from qwenperf.lab.sides import Side


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """Return a repository with two commits on main and one on a branch, checked out."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for number in (1, 2):
        (root / "code.py").write_text(f"VERSION = {number}\n")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", f"version {number}")
    git(root, "checkout", "-q", "-b", "topic")
    (root / "code.py").write_text("VERSION = 3\n")
    git(root, "commit", "-q", "-a", "-m", "version 3")
    return Repository(root=root, cache=tmp_path / "cache")


def test_a_commit_is_exported_once_and_whole(repository):
    """The tree holds that commit's files; nothing of the checkout changes."""
    before = git(repository.root, "status", "--porcelain"), git(repository.root, "worktree", "list")
    side = repository.side("base", "main")
    assert (side.root / "code.py").read_text() == "VERSION = 2\n"
    assert side.commit["sha"] == git(repository.root, "rev-parse", "main")
    assert (git(repository.root, "status", "--porcelain"), git(repository.root, "worktree", "list")) == before
    marker = side.root / "marker"
    marker.touch()
    assert repository.side("base", "main").root.joinpath("marker").exists()


def test_the_working_tree_is_measured_as_it_lies_there(repository):
    """Changes that nobody committed are what a developer asks about."""
    assert repository.side("head", ".").commit["dirty"] is False
    (repository.root / "new.py").touch()
    assert repository.side("head", ".").commit["dirty"] is True, "no commit has it, and it may be imported"
    (repository.root / "code.py").write_text("VERSION = 4\n")
    (repository.root / "new.py").write_text("NEW = True\n")
    side = repository.side("head", ".")
    assert (side.root / "code.py").read_text() == "VERSION = 4\n"
    assert (side.root / "new.py").exists()
    assert side.commit["dirty"] is True
    (repository.root / "code.py").write_text("VERSION = 5\n")
    assert (side.root / "code.py").read_text() == "VERSION = 4\n", "an edit got into a comparison that had begun"
    assert (repository.side("head", ".").root / "code.py").read_text() == "VERSION = 5\n"


def test_a_copy_has_the_name_of_what_it_holds(repository, monkeypatch):
    """A file that is saved while the checkout is copied would be measured for the old one from then on."""
    edited, code = [], repository.root / "code.py"

    def copy(source, target, **how):
        if not edited:
            edited.append(code.write_text("VERSION = 9\n"))
        return shutil_copy(source, target, **how)

    shutil_copy = shutil.copy2
    monkeypatch.setattr("qwenperf.lab.revisions.shutil.copy2", copy)
    assert (repository.snapshot() / "code.py").read_text() == "VERSION = 9\n"
    code.write_text("VERSION = 3\n")
    assert (repository.snapshot() / "code.py").read_text() == "VERSION = 3\n"


def test_a_file_that_goes_while_it_is_copied_is_one_line(repository, monkeypatch):
    """No internal error: a build writes and removes files."""
    monkeypatch.setattr("qwenperf.lab.revisions._is_held", lambda _place: True)
    (repository.root / "code.py").unlink()
    with pytest.raises(MeasurementError, match=r"the working tree cannot be copied: .*code\.py"):
        repository.snapshot()


def test_names_and_messages_that_are_no_utf_8_are_taken(repository):
    """Git holds bytes; a record holds text."""
    name = os.fsdecode(b"caf\xe9.txt")
    (repository.root / name).write_text("x")
    message = repository.root.parent / "message"
    message.write_bytes(b"one\n\nQwenperf-Accept: 4x128/*: caf\xe9 costs\n")
    git(repository.root, "checkout", "-q", "-b", "other", "main")
    git(repository.root, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", str(message))
    assert (repository.snapshot() / name).read_text() == "x"
    (accepted,) = repository.trailers("main", "Qwenperf-Accept", "other")
    assert accepted.startswith("4x128/*: caf")
    assert accepted.encode()


def test_a_cache_that_cannot_be_written_is_one_line(repository, monkeypatch):
    """A file in its place, or a full disk: what to set is said."""
    blocked = replace(repository, cache=repository.root / "code.py")
    for make in (lambda: blocked.export(blocked.resolve("main")), blocked.snapshot):
        with pytest.raises(OutputError, match=r"cannot write .*code\.py/trees.*QWENPERF_CACHE"):
            make()
    with pytest.raises(OutputError, match="QWENPERF_CACHE"):
        install(blocked.cache / "environments" / "x", ())

    def full(*_arguments, **_how):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("qwenperf.lab.revisions.shutil.copy2", full)
    with pytest.raises(OutputError, match=r"No space left on device.*QWENPERF_CACHE"):
        repository.snapshot()


def held(tree):
    """Return the files and links of a tree, with what is in them."""
    places = sorted(place for place in tree.rglob("*") if place.is_symlink() or place.is_file())
    return {
        str(place.relative_to(tree)): str(place.readlink()) if place.is_symlink() else place.read_text()
        for place in places
    }


def test_a_commit_and_its_checkout_are_the_same_tree(repository):
    """Whatever attributes say of archives, and with links: a folder that is one would be there on one side only."""
    root = repository.root
    (root / "lib" / "theirs").mkdir(parents=True)
    (root / "lib" / "theirs" / "decode.py").write_text("MADE = '$Format:%H$'\n")
    (root / "tuning").mkdir()
    (root / "tuning" / "fast.json").write_text("{}\n")
    (root / "theirs").symlink_to("lib/theirs")
    (root / "nowhere").symlink_to("../outside")
    (root / ".gitattributes").write_text("tuning/ export-ignore\n*.py export-subst\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "links and attributes")
    base, head = (repository.side(name, revision).root for name, revision in (("base", "HEAD"), ("head", ".")))
    assert held(base) == held(head)
    code = [Side(name=str(tree), label="", kind="revision", root=tree, python="python") for tree in (base, head)]
    assert same_code(*code), "where both sides are the same code, nothing fails"
    assert not same_code(code[0], replace(code[1], root=repository.side("head", "main").root))
    assert (base / "theirs" / "decode.py").read_text() == "MADE = '$Format:%H$'\n"
    assert git(root, "status", "--porcelain") == ""
    (root / "nowhere").unlink()
    (root / "nowhere").symlink_to("../elsewhere")
    head = repository.side("head", ".").root
    assert held(head)["nowhere"] == "../elsewhere"
    assert not same_files(base, head)


def test_the_default_base_is_where_the_branch_was_forked(repository):
    """And on the main branch itself the commit before, unless something is not committed yet."""
    assert repository.merge_base() == git(repository.root, "rev-parse", "main")
    git(repository.root, "checkout", "-q", "main")
    assert repository.merge_base() == git(repository.root, "rev-parse", "main~1")
    (repository.root / "code.py").write_text("VERSION = 5\n")
    assert repository.merge_base() == git(repository.root, "rev-parse", "main")


@pytest.mark.parametrize("revision", ["nowhere", "--help", "", "main~9"])
def test_a_revision_that_is_none_is_one_line(repository, revision):
    """Also one that looks like an option of git."""
    with pytest.raises(UsageError, match="is no commit of"):
        repository.resolve(revision)


def test_a_folder_without_git_is_one_line(tmp_path):
    """The reason is git's own."""
    with pytest.raises(UsageError, match="not a git repository"):
        Repository.find(tmp_path)


def test_the_same_lock_needs_no_environment_of_its_own(repository):
    """Most changes do not touch it."""
    assert repository.side("base", "main").python == sys.executable
    lock = repository.root / LOCK
    lock.parent.mkdir()
    lock.write_text("# nothing\n")
    git(repository.root, "add", ".")
    git(repository.root, "commit", "-q", "-m", "lock")
    assert repository.side("base", "topic").python == sys.executable


def test_a_new_environment_has_the_byte_code_of_its_packages(tmp_path, monkeypatch):
    """As the checkout's has: no process of that side makes it while the other one starts."""
    wheel = tmp_path / "theirs-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("theirs/__init__.py", "VERSION = 1\n")
        wheel_file = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        told = {"METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1\n", "WHEEL": wheel_file, "RECORD": ""}
        for name, text in told.items():
            packed.writestr(f"theirs-1.dist-info/{name}", text)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    install(tmp_path / "environment", ["--no-index", str(wheel)])
    assert list((tmp_path / "environment").glob("lib/python*/site-packages/theirs/__pycache__/__init__.*.pyc"))


def test_trailers_of_the_commits_since_the_base_are_read(repository):
    """Those of the base itself are not: they were answered for before."""
    message = "costs\n\nQwenperf-Accept: 4x128/*: worth it\nOther: no"
    git(repository.root, "commit", "-q", "--allow-empty", "-m", message)
    assert repository.trailers("main", "Qwenperf-Accept") == ("4x128/*: worth it",)
    assert repository.trailers("HEAD", "Qwenperf-Accept") == ()
    git(repository.root, "checkout", "-q", "main")
    assert repository.trailers("main", "Qwenperf-Accept") == ()
    assert repository.trailers("main", "Qwenperf-Accept", "topic") == ("4x128/*: worth it",)


def test_a_trailer_over_two_lines_is_one(repository):
    """Git folds what is long: the second line is no trailer without a reason."""
    message = "costs\n\nQwenperf-Accept: 4x128/*: the bounds check\n  costs 4% and stays"
    git(repository.root, "commit", "-q", "--allow-empty", "-m", message)
    assert repository.trailers("main", "Qwenperf-Accept") == ("4x128/*: the bounds check costs 4% and stays",)


def test_trees_and_environments_are_kept_where_the_user_says():
    """The same variable as for downloads, else the folder of the XDG specification."""
    assert default_cache({"QWENPERF_CACHE": "/mine", "XDG_CACHE_HOME": "/xdg"}) == Path("/mine")
    assert default_cache({"XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/qwenperf")
