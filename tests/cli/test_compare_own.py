"""`qwenperf compare main` in a repository of somebody's own: each revision's engine, by the installed qwenperf."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwenperf.cli.compare import command
from qwenperf.cli.compare_own import with_own_engines
from qwenperf.cli.compare_progress import PairProgress
from qwenperf.cli.compare_sides import make_sides, package_root
from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.gate.comparison import exit_code
from qwenperf.lab.compare import Comparison, Until, create_folder, same_code
from qwenperf.lab.inventory import take_inventory
from qwenperf.lab.pairs import PairOptions
from qwenperf.lab.sides import Side
from qwenperf.schema.codec import comparison_loads
from qwenperf.schema.records import Outcome
from qwenperf.stats.spending import Plan

ENGINE, OTHER = "theirs.decode:make", "theirs.decode:other"
REQUEST = ("--model", "tiny", "--prompt-length", "4", "--new-tokens", "4")
DECODE = """
import time
import numpy as np
from theirtokens import TOKEN

def _engine(token):
    def generate(tokens, new_tokens):
        time.sleep({pause})
        return np.full((len(tokens), new_tokens), token, np.int32)
    return generate

def make(model, capacity):
    return _engine(1)

def other(model, capacity):
    return _engine(TOKEN)
"""
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")


def git(folder, *arguments):
    done = subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(folder, pause, token):
    (folder / "src" / "theirs").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "theirs" / "decode.py").write_text(DECODE.format(pause=pause))
    (folder / "src" / "theirs" / "__init__.py").touch()
    (folder / "theirtokens.py").write_text(f"TOKEN = {token}\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return somebody's repository: branch `topic` is slower than main, and its second engine has another token."""
    folder = tmp_path_factory.mktemp("theirs")
    git(folder, "init", "-q", "-b", "main")
    for name, pause, token in (("main", 0.004, 1), ("topic", 0.008, 2)):
        if name != "main":
            git(folder, "checkout", "-q", "-b", name)
        write(folder, pause, token)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name)
    return folder, tmp_path_factory.mktemp("cache")


@pytest.fixture
def repository(made, monkeypatch):
    """Return the repository, in which the test is."""
    folder, cache = made
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QWENPERF_CACHE", str(cache))
    return folder


def sides(base, head, engines=(ENGINE,), **flags):
    flags = {"engines": None, "aa": False, "jax": None, "excuses": (), "suite": None, "engine_here": True} | flags
    return with_own_engines(make_sides(base, head, flags), engines, flags)


@pytest.mark.slow
def test_each_revision_s_engine_is_measured_by_the_same_qwenperf(repository, tmp_path, capsys):
    """The record says of which file and which commit; a token that the change altered fails, as ever."""
    base, head = sides("main", "topic", (ENGINE, OTHER))
    assert (base.python, base.root) == (head.python, head.root)
    assert not same_code(base, head)
    arguments = (*REQUEST, "--engine", ENGINE, "--engine", OTHER)
    folder = create_folder(tmp_path)
    Comparison(
        base=base, head=head, inventory=take_inventory(base, head, arguments, {}), plan=Plan(), folder=folder,
        options=PairOptions(rounds=1, trial_s=0.001, anchors=False), listener=PairProgress(lambda _: None),
        until=Until(enough=lambda _: True, most=1), facts={},
    ).run()  # fmt: skip
    record = comparison_loads((folder / "comparison.json").read_text())
    for side, revision in ((record.base, "main"), (record.head, "topic")):
        sha = git(repository, "rev-parse", revision)
        assert side.commit["sha"] == sha
        assert Path(side.extra["tree"]).name == sha
        seen = [getattr(case, "base" if side is record.base else "head") for case in record.cases]
        assert {one.extra["engine_file"] for one in seen} == {f"{side.extra['tree']}/src/theirs/decode.py"}
    assert [pair.failed for pair in record.pairs] == [None]
    tokens = {
        case.spec["engine"]: verdict for case in record.cases for verdict in case.verdicts if verdict.gate == "tokens"
    }
    assert tokens[ENGINE].outcome is Outcome.PASS
    assert tokens[OTHER].outcome is Outcome.FAIL
    assert "new token 0: 1 in base, 2 in head" in tokens[OTHER].summary
    assert exit_code(record) == 1
    assert f"head (topic ({sha[:10]})): {ENGINE} from {record.head.extra['tree']}/src/" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_not_committed_is_measured_as_it_lies_there(repository):
    """A developer asks before the commit; and a second run of an unchanged tree is the same code."""
    (repository / "theirtokens.py").write_text("TOKEN = 3\n")
    try:
        base, head = sides("main", ".")
    finally:
        git(repository, "checkout", "-q", "--", "theirtokens.py")
    assert head.commit["dirty"] is True
    assert (head.tree.root / "theirtokens.py").read_text() == "TOKEN = 3\n"
    assert (base.tree.root / "theirtokens.py").read_text() == "TOKEN = 1\n"
    assert same_code(*sides("main", "main"))


def test_the_same_code_twice_is_one_copy_of_the_checkout(repository):
    """Where the checkout holds the engine; one that is installed is found as it always was."""
    base, head = sides(None, ".", aa=True)
    assert same_code(base, head)
    assert base.tree.root != repository
    assert head.commit["sha"] == git(repository, "rev-parse", "HEAD")
    for engines, flags in ((("json.decoder:make",), {}), (("cached",), {}), ((ENGINE,), {"engine_here": False})):
        base, head = sides(None, ".", engines, aa=True, **flags)
        assert (base.tree, head.tree) == (None, None), engines


def test_a_revision_of_qwenperf_is_measured_by_its_own_copy(monkeypatch):
    """Whatever engine is named: in a fork the package's code is what is compared."""
    root = package_root()
    monkeypatch.setattr("qwenperf.cli.compare_own.Path.cwd", lambda: root)
    monkeypatch.setattr("qwenperf.lab.engine_files.run_command", None)
    side = Side(name="base", label="x", kind="revision", root=root, python=sys.executable)
    flags = {"engines": None, "aa": False, "jax": None, "suite": None, "engine_here": True}
    assert with_own_engines((side, side), (ENGINE,), flags) == (side, side)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("engines", "suite", "seen"),
    [
        (("cached",), None, "both revisions would have the same cached, the installed one. Name one of yours"),
        ((ENGINE, "cached"), None, "would have the same cached"),
        (("theirs.decode",), None, "unknown engine 'theirs.decode'"),
        ((), "smoke", "would have the same --suite smoke"),
        (("theirs.decode:mkae",), None, r"base \(main \(\w+\)\): engine theirs.decode:mkae: mkae is not there in"),
        (("theirs.later:make",), None, "No module named 'theirs.later'. Files that git does not hold are in no"),
    ],
)
def test_an_engine_that_is_not_the_revision_s_is_one_line(engines, suite, seen):
    """Our own would be one engine measured against itself."""
    with pytest.raises(UsageError, match=seen):
        sides("main", "topic", engines, suite=suite)


def test_an_engine_that_only_head_cannot_import_is_left_to_the_verdict(repository):
    """It works in base and not in head: a failure of the change, and no misuse of the command."""
    file = repository / "src" / "theirs" / "decode.py"
    text = file.read_text()
    file.write_text("raise RuntimeError('half done')\n")
    try:
        assert sides("main", ".")[1].tree is not None
    finally:
        file.write_text(text)


@pytest.mark.usefixtures("repository")
def test_an_installed_copy_of_a_package_that_lies_elsewhere_is_refused(tmp_path, monkeypatch):
    """It would be measured on both sides."""
    (tmp_path / "installed.py").write_text("def make(model, capacity): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        EnvironmentUnfitError, match=r"base .*: installed was imported from .*/installed.py, an installed"
    ):
        sides("main", "topic", ("installed:make",))


SMALL = (*REQUEST, "--rounds", "2", "--trial", "0.02", "--looks", "7", "--json")


@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_a_slower_revision_and_another_token_are_found_by_the_command(tmp_path, monkeypatch):
    """4 ms more in a request of 4 ms, confirmed by fresh pairs, on any machine that runs the tests."""
    # As many fresh pairs as their signs need: the planned ones take a minute and prove nothing else.
    monkeypatch.setattr("qwenperf.lab.compare.CONFIRM", Plan(looks=(6,), alpha=0.05))
    words = ("main", "topic", "--engine", OTHER, *SMALL, "--out", str(tmp_path))
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.return_value == 1, (done.exception, done.stderr)
    told = json.loads(done.stdout)
    outcomes = {one["gate"]: one["outcome"] for one in told["cases"][0]["verdicts"]}
    assert (outcomes["tokens"], outcomes["speed"]) == ("fail", "fail"), told["cases"][0]["verdicts"]
    assert told["cases"][0]["base"]["engine_file"].endswith("/src/theirs/decode.py")


@pytest.mark.slow
def test_the_same_code_twice_says_what_this_machine_can_tell_apart(repository, tmp_path):
    """All of `qwenperf compare --aa`, free and pinned, as data and in the files, in processes of its own."""
    line = [sys.executable, "-m", "qwenperf", "compare", "--aa", "--engine", ENGINE, *SMALL, "--out", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=repository, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    sight, pinning = told["findings"]
    assert (sight["code"], pinning["code"]) == ("aa-sight", "aa-pinning")
    assert sight["data"]["pairs"] == 7
    assert sight["data"]["smallest_effect"] > 0
    assert json.loads((tmp_path / told["id"] / "comparison.json").read_text())["findings"] == told["findings"]
    assert told["cases"][0]["base"]["engine_file"].endswith("/src/theirs/decode.py")
    (speed,) = (one for one in told["cases"][0]["verdicts"] if one["gate"] == "speed")
    first = speed["data"]["spawned_first"]["stage_1"]
    assert {first.count("base"), first.count("head")} == {3, 4}
