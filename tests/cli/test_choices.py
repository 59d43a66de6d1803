"""The help of a command names what its options may be given, and a wrong name is answered with the nearest."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.workloads.case import DTYPES, ENGINES
from qwenperf.workloads.engine import BEST
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.suites import SUITES


def help_of(command):
    """The help of a command without the blanks that wrapping puts into names."""
    return "".join(CliRunner().invoke(main, [command, "--help"]).stdout.split())


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    "names", [SUITES, PRESETS, (*ENGINES, *BEST), DTYPES], ids=["suite", "model", "engine", "dtype"]
)
def test_the_help_names_what_an_option_takes(command, names):
    """All of it, so that nobody has to look for another command that lists them."""
    told = help_of(command)
    assert [name for name in names if name not in told] == []


def test_asking_for_help_imports_no_jax():
    """A person waits for it."""
    code = "import sys; from qwenperf.cli import compare, run; print(sorted({'jax', 'flax', 'numpy'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [
        ("--suite", "smokey", "smoke"),
        ("--model", "gpt3", "gpt2"),
        ("--engine", "cache", "cached"),
        ("--dtype", "f16", "f32"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(option, name, near):
    """With exit code 2, before anything is measured."""
    done = CliRunner().invoke(main, ["run", option, name, "--list"])
    assert done.exit_code == 2
    assert f"unknown {option[2:]} '{name}'" in done.stderr
    assert near in done.stderr
