"""`qwenperf bisect METRIC --engine` in somebody's own repository: each commit's engine, by the qwenperf here."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from qwenperf.cli.bisect import command
from qwenperf.cli.bisect_case import read_asked
from qwenperf.cli.bisect_own import place_of
from qwenperf.cli.compare_sides import package_root
from qwenperf.errors import EnvironmentUnfitError, MeasurementError, UsageError
from qwenperf.lab.bisect_sides import Own
from qwenperf.lab.own_sides import OwnSides
from qwenperf.schema.records import CaseRecord, RunRecord, metric

ENGINE = "theirs.planted:make"
CASE = f"tiny/{ENGINE}/b1-p4-n8-f32"
FLAGS = ("--model", "tiny", "--engine", ENGINE, "--prompt-length", "4", "--new-tokens", "8")
PLANTED = """
import jax
import numpy as np
from theirnumber import PROGRAMS

def make(model, capacity):
    def generate(tokens, new_tokens):
        for number in range(PROGRAMS):
            jax.jit(lambda x: x + number)(np.float32(0)).block_until_ready()
        return np.zeros((len(tokens), new_tokens), np.int32)
    return generate
"""
BROKEN = "import nothing_of_that_name"


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def write(folder, planted, programs):
    (folder / "src" / "theirs").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "theirs" / "planted.py").write_text(planted)
    (folder / "src" / "theirs" / "__init__.py").touch()
    (folder / "theirnumber.py").write_text(f"PROGRAMS = {programs}\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return somebody's repository: the third of its commits does not import, the fifth compiles in each request."""
    folder = tmp_path_factory.mktemp("theirs")
    git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("no engine yet")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    for number, programs in enumerate((0, 0, None, 0, 1, 1)):
        write(folder, BROKEN if programs is None else PLANTED, programs)
        (folder / "number.txt").write_text(str(number))
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"commit {number}")
    return folder, tmp_path_factory.mktemp("cache")


@pytest.fixture
def repository(made, monkeypatch):
    """Return the repository, in which the test is."""
    folder, cache = made
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QWENPERF_CACHE", str(cache))
    return folder


def bisect(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)


class Runs:
    """Tells what a run of a side would have measured, until it is interrupted."""

    def __init__(self, most=99):
        self.most, self.asked = most, []

    def __call__(self, side, arguments, *, traced=False):
        """Return a run; there are no traces."""
        if traced:
            raise MeasurementError("no profiler here.")
        if len(self.asked) == self.most:
            raise KeyboardInterrupt
        self.asked.append((side, arguments))
        text = (side.tree.root / "theirnumber.py").read_text()
        value = metric("compiles_steady", float(text.rpartition("=")[2]))
        case = CaseRecord(id=CASE, spec={}, metrics={"compiles_steady": value})
        return RunRecord(id="r", created_at="2026-01-01T00:00:00+00:00", suite="ad-hoc", environment={}, cases=(case,))


@pytest.fixture
def measured(monkeypatch):
    """Have runs told, and engines imported as their text says."""

    def engine_file(side, engine):
        file = side.tree.root / "src" / "theirs" / "planted.py"
        if file.read_text() == BROKEN:
            raise UsageError(f"engine {engine}: No module named 'nothing_of_that_name'.")
        return str(file)

    def use(runs):
        monkeypatch.setattr("qwenperf.lab.bisect_probe.run_side", runs)
        monkeypatch.setattr("qwenperf.lab.bisect_traces.run_side", runs)
        return runs

    monkeypatch.setattr("qwenperf.lab.bisect_sides.engine_file", engine_file)
    # The checkout that tests run in may be edited meanwhile.
    monkeypatch.setattr("qwenperf.lab.bisect_environment.code_digest", lambda _root: "0123456789")
    return use


def record_in(folder):
    (file,) = folder.glob("bisect-*/bisect.json")
    return json.loads(file.read_text())


def found(record):
    """Return the subjects of the suspects and of the commits that were skipped."""
    subjects = {one["sha"]: one["subject"] for one in record["commits"]}
    skipped = [subjects[one["head"]] for one in record["answers"] if one["answer"] == "skip"]
    return [subjects[sha] for sha in record["suspects"]], skipped


def refuse_after_an_upgrade(wanted, folder):
    """See that a search is not gone on with where JAX is another than when it was begun."""
    (file,) = folder.glob("bisect-*/bisect.json")
    text = file.read_text()
    record = json.loads(text)
    now = record["environment"]["jax"]
    file.write_text(json.dumps({**record, "environment": {**record["environment"], "jax": "0.0.1"}}))
    refused = bisect(*wanted).exception
    assert isinstance(refused, EnvironmentUnfitError)
    assert f"jax 0.0.1 -> {now}. Readings of before and after" in str(refused)
    file.write_text(text)


@pytest.mark.usefixtures("repository")
def test_the_commit_is_named_by_one_run_of_each_commit_also_after_an_interruption(measured, tmp_path):
    """Each run is of the commit's own files and of the qwenperf that is here; one that does not import is skipped."""
    wanted = ("compiles_steady", *FLAGS, "--good", "HEAD~5", "--out", tmp_path)
    first = measured(Runs(most=3))
    assert bisect(*wanted).return_value == 130
    assert record_in(tmp_path)["interrupted"]
    refuse_after_an_upgrade(wanted, tmp_path)
    rest = measured(Runs())
    assert bisect(*wanted).return_value == 0
    record = record_in(tmp_path)
    assert (record["end"], *found(record)) == ("culprit", ["commit 4"], ["commit 2"])
    assert "nothing_of_that_name" in next(one["why"] for one in record["answers"] if one["answer"] == "skip")
    asked = [*first.asked, *rest.asked]
    trees = [side.tree.root.name for side, _ in asked]
    assert len(trees) == len(set(trees)) == 4
    assert {record["good"], record["bad"], *record["suspects"]} <= set(trees)
    assert all(side.root != side.tree.root for side, _ in asked)
    assert asked[0][1][:8] == ("--model", "tiny", "--engine", ENGINE, "--batch", "1", "--prompt-length", "4")
    assert "--no-engine-here" in asked[0][1]
    again = measured(Runs())
    assert bisect(CASE, *wanted[:1], *wanted[len(FLAGS) + 1 :]).return_value == 0
    assert again.asked == [], "the case by its id is the same search"


def test_a_model_in_a_folder_is_called_as_in_other_commands(tmp_path, monkeypatch):
    """Each commit's run is told its whole path: it is started elsewhere."""
    (tmp_path / "models" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    flags = {"suite": None, "engine": None, "prompt_length": None, "new_tokens": None, "batch": None, "dtype": None}
    for words, model in (((), "models/small"), (("models/small/cached/b1-p32-n32-f32",), None)):
        asked = read_asked((*words, "request_s"), flags | {"model": model})
        assert asked.told == "models/small/cached/b1-p32-n32-f32"
        assert asked.case == f"{tmp_path}/models/small/cached/b1-p32-n32-f32"
        assert asked.arguments[:2] == ("--model", f"{tmp_path}/models/small")


def test_a_case_by_its_flags_is_the_one_by_its_id():
    """Sizes that are not named are those of `qwenperf run`."""
    sizes = {"prompt_length": None, "new_tokens": None, "batch": None, "dtype": None}
    none = {"suite": None, "model": None, "engine": None} | sizes
    flags = none | {"model": "tiny", "engine": ENGINE}
    by_id = read_asked((f"tiny/{ENGINE}/b1-p32-n32-f32", "request_s"), none)
    assert read_asked(("request_s",), flags) == by_id
    assert by_id.flags is not None
    assert by_id.flags.cases()[0].id == by_id.case


def test_engines_of_one_name_in_two_folders_are_two_searches(tmp_path):
    """One could be taken for the end of the other's."""

    def place(here):
        sides = OwnSides(checkout=tmp_path, here=here, engines=(ENGINE,), package=package_root())
        return place_of(Own(sides=sides, case=None))

    assert [place(tmp_path), place(tmp_path / "b")] == [{"engine_from": "."}, {"engine_from": "b"}]


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ((*FLAGS, "--good", "HEAD~6"), f"{ENGINE}: No module named 'theirs'. Give a commit that has it as --good"),
        ((*FLAGS, "--good", "HEAD~3"), "No module named 'nothing_of_that_name'"),
        ((*FLAGS[:2], "--engine", "theirs.planted:mkae", "--good", "HEAD~5"), "mkae is not there in"),
        ((*FLAGS[:2], "--engine", "theirs.planted", "--good", "HEAD~5"), "unknown engine 'theirs.planted'"),
        (("--model", "gtp2", *FLAGS[2:], "--good", "HEAD~5"), "unknown model 'gtp2'"),
        (("--model", "tiny", "--good", "HEAD~5"), "all commits would have the same cached, the installed one."),
    ],
)
def test_an_engine_that_is_not_the_good_commit_s_is_one_line(arguments, seen):
    """With exit code 2, before anything is measured."""
    error = bisect("compiles_steady", *arguments).exception
    assert isinstance(error, UsageError), error
    assert error.exit_code == 2
    assert seen in str(error)


@pytest.mark.usefixtures("repository")
def test_an_installed_engine_that_lies_in_no_commit_is_refused(tmp_path, monkeypatch):
    """It would be the same in all of them."""
    (tmp_path / "installed.py").write_text("def make(model, capacity): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    error = bisect("request_s", "--model", "tiny", "--engine", "installed:make", "--good", "HEAD~5").exception
    assert isinstance(error, EnvironmentUnfitError)
    assert "--good" in str(error)
    assert f"installed was imported from {tmp_path}/installed.py, an installed copy" in str(error)


def test_outside_of_a_repository_it_is_said_where_to_start(tmp_path, monkeypatch):
    """Its commits are what is searched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    error = bisect("request_s", *FLAGS, "--good", "HEAD~5").exception
    assert isinstance(error, UsageError)
    assert "not a git repository" in str(error)
    assert "Start the command in the git repository" in str(error)


@pytest.mark.slow
def test_the_commit_is_found_beside_an_installed_copy_of_the_engine(repository, tmp_path):
    """From start to end, in real processes: the copy compiles nothing, and would show no change at all."""
    write(tmp_path, PLANTED, 0)
    (tmp_path / "src" / "theirnumber.py").write_text("PROGRAMS = 0\n")
    arguments = ("compiles_steady", *FLAGS, "--good", "HEAD~5", "--out", str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-m", "qwenperf", "bisect", *arguments], capture_output=True, text=True, cwd=repository,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")}, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = record_in(tmp_path / "out")
    assert (record["end"], *found(record)) == ("culprit", ["commit 4"], ["commit 2"])
    (culprit,) = record["suspects"]
    assert f"{culprit} is the commit that changed compiles_steady" in done.stdout
    assert f"{culprit[:10]}: {ENGINE} from {os.environ['QWENPERF_CACHE']}/trees/{culprit}/src/theirs" in done.stderr
