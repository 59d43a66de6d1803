"""`qwenperf compare` from outside: what people mistype is one line, and saved runs need no clock."""

import subprocess
import sys

import pytest

WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")


def compare(*arguments, cwd):
    command = [sys.executable, "-m", "qwenperf", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


@pytest.fixture
def repository(tmp_path):
    """Return a git repository with one commit."""
    for arguments in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=tmp_path, check=True
        )
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("nowhere",), "'nowhere' is no commit of"),
        (("--engines", "cached", "cachd"), "unknown engine 'cachd'. Did you mean 'cached'"),
        (("--aa", "HEAD"), "exclude each other"),
        (("--aa", "--looks", "6,x"), "--looks is '6,x'"),
        (("--aa", "--looks", "2"), "do not rise from 6 pairs"),
        (("--aa", "--looks", "6"), "so few pairs can fail none of 1 cases"),
        (("--aa", "--margin", "-1"), "the margin is -1"),
        (("--aa", "--margin-of", "case"), "'case' is not --margin-of CASE=X"),
        (("--aa", "--model", "no-such"), "unknown model 'no-such'"),
    ],
)
def test_what_makes_no_sense_is_one_line(repository, arguments, seen):
    """Nothing is measured, and no traceback is shown."""
    done = compare(*arguments, cwd=repository)
    assert done.returncode in {2, 5}, done.stderr
    assert seen in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_outside_of_a_repository_it_says_so(tmp_path):
    """And still compares engines there."""
    done = compare("main", cwd=tmp_path)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
