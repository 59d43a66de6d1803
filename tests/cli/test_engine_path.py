"""Somebody's own engine is found in the working folder, by the processes that measure it and by no others."""

import json
import os
import subprocess

import pytest

from qwenperf.cli.compare_cases import own_engines
from qwenperf.cli.engine_path import engine_found_here
from qwenperf.lab.process import measuring_environ

ENGINE = """
from qwenperf import build_engine

def make(model, capacity):
    return build_engine(model, "cached-host", capacity=capacity)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder, and somebody's own PYTHONPATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    return tmp_path


def searched():
    """Where a measuring process would look, but for our own package."""
    return measuring_environ(os.environ)["PYTHONPATH"].split(os.pathsep)[1:]


def test_the_working_folder_comes_last_and_only_for_a_factory(here):
    with engine_found_here(["cached", "my.engine:make"], here=True):
        assert searched() == ["/theirs", str(here)]
    for engines, asked in ((["cached"], True), (["my.engine:make"], False)):
        with engine_found_here(engines, here=asked):
            assert searched() == ["/theirs"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("before", ["/theirs", None])
def test_the_environment_is_afterwards_as_it_was(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("PYTHONPATH")

    def fail():
        with engine_found_here(["my.engine:make"], here=True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.environ.get("PYTHONPATH") == before


def flags(**given):
    names = ("engines", "aa", "jax", "suite", "model", "prompt_length", "new_tokens", "batch", "dtype", "rerun_failed")
    return dict.fromkeys(names) | {"case_engines": ()} | given


def test_two_revisions_have_engines_of_their_own():
    """The working folder's on both sides would compare one engine with itself."""
    assert own_engines(flags(case_engines=("my.engine:make",))) == ()
    assert "my.engine:make" in own_engines(flags(aa=True, case_engines=("my.engine:make",)))
    assert "my.old:make" in own_engines(flags(engines=("my.old:make", "my.engine:make")))


@pytest.mark.slow
def test_a_factory_beside_the_command_is_measured(cli, tmp_path):
    """And with --no-engine-here it is not found, in one line that says what to do."""
    command, environ, _ = cli
    (tmp_path / "mine.py").write_text(ENGINE)
    arguments = ("run", "--model", "tiny", "--engine", "mine:make", "--prompt-length", 4, "--new-tokens", 4)
    arguments += ("--trials", 2, "--no-trace", "--out", tmp_path / "runs", "--json")
    asked = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environ(PYTHONPATH="")}
    done = subprocess.run(command(*arguments), check=False, **asked)
    assert done.returncode == 0, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    assert case["id"] == "tiny/mine:make/b1-p4-n4-f32"
    done = subprocess.run(command(*arguments, "--no-engine-here"), check=False, **asked)
    assert done.returncode == 2
    assert "No module named 'mine'. Install it, start the command in the folder that holds it" in done.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 1
