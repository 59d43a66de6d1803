"""The action and the workflows to copy: what they may do, and that their script works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from qwenperf.schema.codec import dumps

ACTION = ".github/actions/qwenperf/action.yml"
EXAMPLES = ("examples/github/measure.yml", "examples/github/report.yml")


def workflow(repository, name):
    """Return a workflow as data; YAML reads `on` as a truth value."""
    found = yaml.safe_load((repository / name).read_text())
    return {"on" if key is True else key: value for key, value in found.items()}


def test_the_examples_pass_the_audit(repository):
    """As our own workflows do."""
    zizmor = Path(sys.executable).with_name("zizmor")
    command = [zizmor, "--offline", "--quiet", "--no-progress", *EXAMPLES, ACTION]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_may_no_more_than_it_needs(repository, name):
    """Who runs a stranger's code may write nothing; who may write runs none."""
    found = workflow(repository, name)
    (job,) = found["jobs"].values()
    uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    measures = "pull_request" in found["on"]
    assert found["permissions"] == {}
    assert ("write" in job["permissions"].values(), "actions/checkout" in uses) == (not measures, measures)
    ours = [step for step in job["steps"] if "qwenperf" in step.get("uses", "")]
    assert all(("token" in step.get("with", {})) != measures for step in ours)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_names_inputs_that_the_action_has(repository, name):
    """A misspelt input is ignored by GitHub, with a warning that nobody reads."""
    inputs = yaml.safe_load((repository / ACTION).read_text())["inputs"]
    (job,) = workflow(repository, name)["jobs"].values()
    (given,) = [step["with"] for step in job["steps"] if "qwenperf" in step.get("uses", "")]
    assert given.keys() <= inputs.keys()


def test_the_actions_that_we_use_are_pinned_once(repository):
    """The commits that CI uses, so that they are raised together."""
    pinned = (repository / ".github/workflows/ci.yml").read_text()
    for name in (ACTION, *EXAMPLES):
        text = (repository / name).read_text()
        used = [line.split("uses: ")[1] for line in text.splitlines() if "uses: actions/" in line]
        assert all(one in pinned for one in used), name


def acted(repository, folder, arguments):
    """Run what the action runs, with this input."""
    steps = yaml.safe_load((repository / ACTION).read_text())["runs"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == "Run it"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "ARGUMENTS": arguments, "JAX_PLATFORMS": "cpu"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_script_of_the_action_runs_the_command(repository, tmp_path, samples_of_report):
    """Words are split at spaces and lines, and nothing in them is run; the exit code is the command's."""
    (tmp_path / "run.json").write_text(dumps(samples_of_report.run()))
    told = "\ngithub . --dry-run\n  --repository acme/engine\n--sha " + "a" * 40 + " --name $(touch${IFS}pwned)\n"
    done = acted(repository, tmp_path, told)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)[0]["body"]["name"] == "$(touch${IFS}pwned)"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("arguments", ["", " \n"])
def test_an_action_without_a_command_is_no_green_check(repository, tmp_path, arguments):
    """A variable that is not set is an empty one; the program alone prints its help and ends with 0."""
    done = acted(repository, tmp_path, arguments)
    assert (done.returncode, "'arguments' is empty" in done.stderr) == (2, True)


def test_a_module_in_the_repository_is_not_taken_for_one_of_ours(repository, tmp_path):
    """The step may hold a token, and the repository is a pull request's."""
    (tmp_path / "click.py").write_text("raise SystemExit(7)")
    assert acted(repository, tmp_path, "--version").returncode == 0
