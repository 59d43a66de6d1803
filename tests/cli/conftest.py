"""One real run of a tiny model, in real processes, that many tests look at."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from qwenperf.lab import interpreters

LOCK = "QWENPERF_LOCK"


@dataclass(frozen=True)
class Finished:
    """A command that has ended, and the only folder of the runs that it made."""

    returncode: int
    stdout: str
    stderr: str
    out: Path

    @property
    def folder(self):
        """The run's folder."""
        (folder,) = self.out.iterdir()
        return folder


def run(arguments, folder, **more):
    """Run a command line in ``folder``, with ``more`` environment, and return what it did, whatever its exit code."""
    return subprocess.run(arguments, capture_output=True, check=False, text=True, cwd=folder, env=environ(**more))


def command(*arguments):
    """Return the command line of a real process."""
    return [sys.executable, "-m", "qwenperf", *map(str, arguments)]


def environ(**more):
    """Return an environment without settings of ours, whose caches and lock are as they are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QWENPERF_") or name == LOCK}
    return kept | {"JAX_PLATFORMS": "cpu"} | more


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory, compiles_quickly):
    """``qwenperf run`` of the tiny model on two rungs, with --json."""
    out = tmp_path_factory.mktemp("runs")
    arguments = ("run", "--model", "tiny", "--engine", "naive", "--engine", "cached", "--prompt-length", 4)
    arguments += ("--new-tokens", 8, "--trials", 3, "--out", out, "--json")
    done = run(command(*arguments), tmp_path_factory.mktemp("cwd"), **compiles_quickly)
    return Finished(done.returncode, done.stdout, done.stderr, out)


@pytest.fixture(scope="session")
def cli():
    """Functions that make a command line and its environment."""
    return command, environ, run


@pytest.fixture
def jax_is_had():
    """Skip where the package index cannot be asked, or a version of JAX is for no Python of this machine."""

    def check(*versions):
        for version in versions:
            if all(interpreters._trouble(python, [f"jax=={version}"]) for python in interpreters.interpreters()):
                pytest.skip(f"no package index, or no jax {version} in it for a Python of this machine")

    return check
