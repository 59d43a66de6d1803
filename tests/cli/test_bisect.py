"""`qwenperf bisect` from outside: what people mistype is one line; a search that was killed goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

import qwenperf
from qwenperf.cli.bisect import command
from qwenperf.errors import QwenperfError

PACKAGE = Path(qwenperf.__file__).parent
CASE = "tiny/planted:make/b1-p4-n8-f32"

PLANTED = '''"""An engine of the commit's own: it compiles PROGRAMS programs in each request."""

import jax
import numpy as np

PROGRAMS = {programs}


class Planted:
    name = "planted"

    def generate(self, tokens_BT, new_tokens):
        for number in range(PROGRAMS):
            jax.jit(lambda x: x + number)(np.float32(0)).block_until_ready()
        return np.zeros((len(tokens_BT), new_tokens), np.int32)


def make(model, capacity):
    return Planted()
'''


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=A. Uthor", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def command_line(*arguments):
    return [sys.executable, "-m", "qwenperf", "bisect", *arguments]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Return a repository of three commits, the first without any file: nothing in it can be measured."""
    root = tmp_path_factory.mktemp("empty")
    git(root, "init", "-q", "-b", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    for name in ("second", "third"):
        (root / "README").write_text(name)
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", name)
    return root


def refused(folder, monkeypatch, *arguments):
    """Run the command in this process and return the error that ends it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(done.exception, QwenperfError | ClickException), done.exception
    assert done.stdout == ""
    return done.exception


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("tiny/cached/b1-p4-n8-f32", "request_s", "--good", "HEAD", "--bad", "HEAD~1"), "is newer than"),
        (("tiny/cached/b1-p4-n8-f32", "request_s", "--good", "nowhere"), "'nowhere' is no commit of"),
        (("tiny/cached/b1-p4-n8-f32", "reqest_s", "--good", "HEAD~1"), "Did you mean 'request_s'"),
        (("4x128/cached", "request_s", "--good", "HEAD~1"), "unknown case '4x128/cached'"),
        (("tiny/cached/b1-p4-n8-f32", "scaling_per_100_tokens", "--good", "HEAD~1"), "may be 0 or below"),
        (("tiny/cached/b1-p4-n8-f32", "ttft_s", "--good", "HEAD~1", "--cores", "1"), "is measured by whole runs"),
        (("tiny/cached/b1-p4-n8-f32", "request_s", "--good", "HEAD~1", "--looks", "6"), "so few pairs"),
        (("tiny/cached/b1-p4-n8-f32", "request_s"), "Missing parameter: good"),
        (("request_s", "--good", "HEAD~1"), "no case is named of which request_s is searched. Write its id before"),
        (("a", "b", "request_s", "--good", "HEAD~1"), "3 names, 'a b request_s'"),
        ((CASE, "request_s", "--good", "HEAD~1", "--model", "tiny"), "and --model, --engine and sizes name another"),
        (("request_s", "--good", "HEAD~1", "--model", "tiny", "--suite", "quick"), "exclude each other"),
        (("request_s", "--good", "HEAD~1", "--engine", "cashed"), "Did you mean 'cached'"),
        (("request_s", "--good", "HEAD~1", "--engine", "cached"), "all commits would have the same cached"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_measured(empty, monkeypatch, arguments, seen):
    """In one line, with exit code 2."""
    error = refused(empty, monkeypatch, *arguments)
    assert error.exit_code == 2
    assert seen in str(error)


def test_an_end_that_cannot_be_measured_is_told(empty, monkeypatch):
    """With the option that named it."""
    error = refused(empty, monkeypatch, CASE, "request_s", "--good", "HEAD~2")
    assert error.exit_code == 5
    assert "--good" in str(error)
    assert "cannot be exported" in str(error)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository of this package and seven commits: the sixth compiles in each request, the fourth breaks."""
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q", "-b", "main")
    shutil.copytree(PACKAGE, root / "qwenperf", ignore=shutil.ignore_patterns("__pycache__"))
    for number, programs in enumerate((0, 0, 0, None, 0, 1, 1)):
        text = "import nothing_of_that_name\n" if programs is None else PLANTED.format(programs=programs)
        (root / "planted.py").write_text(text)
        (root / "number.txt").write_text(str(number))
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", f"commit {number}")
    return root


@pytest.mark.slow
def test_a_compile_in_each_request_is_found_also_by_a_search_that_was_killed(repository, tmp_path):
    """SIGKILL costs the measurement under way; a commit that does not run is passed over."""
    wanted = (CASE, "compiles_steady", "--good", "HEAD~6", "--out", str(tmp_path), "--json")
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = (tmp_path / "said").open("w")
    with (
        said,
        subprocess.Popen(
            command_line(*wanted), cwd=repository, env=environ, stdout=subprocess.DEVNULL, stderr=said
        ) as first,
    ):
        end = time.monotonic() + 120
        while not (kept := _state(tmp_path)).get("answers"):
            assert time.monotonic() < end
            assert first.poll() is None, (tmp_path / "said").read_text()
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
    assert not kept["end"]
    done = subprocess.run(
        command_line(*wanted), cwd=repository, env=environ, capture_output=True, text=True, check=False
    )
    record = json.loads(done.stdout)
    subjects = {one["sha"]: one["subject"] for one in record["commits"]}
    assert (done.returncode, record["end"]) == (0, "culprit"), done.stderr
    assert [subjects[sha] for sha in record["suspects"]] == ["commit 5"]
    assert record["answers"][: len(kept["answers"])] == kept["answers"]
    assert f"going on behind {len(kept['answers'])} answers" in done.stderr
    skipped = [one for one in record["answers"] if one["answer"] == "skip"]
    assert [subjects[one["head"]] for one in skipped] == ["commit 3"]
    assert "nothing_of_that_name" in skipped[0]["why"]
    told = subprocess.run(
        command_line(*wanted[:-1]), cwd=repository, env=environ, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0
    assert f"{record['suspects'][0]} is the commit that changed compiles_steady" in told.stdout
    assert "compiles_steady 0 -> " in told.stdout


def _state(folder):
    files = list(folder.glob("bisect-*/bisect.json"))
    return json.loads(files[0].read_text()) if files else {}


PAUSING = '''"""An engine of the commit's own: it waits in each request."""

import time

import jax
import numpy as np

PAUSE_S = {pause}


@jax.jit
def answer(tokens_BT):
    return tokens_BT[:, :1] * 0


class Pausing:
    name = "pausing"

    def generate(self, tokens_BT, new_tokens):
        time.sleep(PAUSE_S)
        return np.repeat(np.asarray(answer(tokens_BT)), new_tokens, axis=1)


def make(model, capacity):
    return Pausing()
'''


@pytest.mark.slow
def test_a_pause_is_found_with_few_pairs_once_its_size_is_known(tmp_path):
    """The ends are judged as a pull request is; a commit between and the step of the culprit take far fewer pairs."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    shutil.copytree(PACKAGE, root / "qwenperf", ignore=shutil.ignore_patterns("__pycache__"))
    for number, pause in enumerate((0.02, 0.02, 0.03, 0.03)):
        (root / "pausing.py").write_text(PAUSING.format(pause=pause))
        (root / "number.txt").write_text(str(number))
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", f"commit {number}")
    done = subprocess.run(
        command_line(
            "tiny/pausing:make/b1-p4-n8-f32", "request_s", "--good", "HEAD~3", "--rounds", "2", "--trial", "0.03",
            "--out", str(tmp_path / "out"), "--json",
        ),
        cwd=root, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    subjects = {one["sha"]: one["subject"] for one in record["commits"]}
    assert [subjects[sha] for sha in record["suspects"]] == ["commit 2"]
    ends, *between, step = record["answers"]
    assert ends["kind"] == "ends"
    assert ends["level"]["least"] > 0.1
    assert [one["answer"] for one in between] == ["good", "bad"]
    assert step["kind"] == "step"
    assert step["low"] < 0.5 < step["high"] or abs(step["change"] - 0.5) < 0.1
    assert max(one["pairs"] for one in (*between, step)) < ends["pairs"]
    assert any("host gap" in line for line in step["lines"]), step
