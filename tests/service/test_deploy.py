"""What is in ``deploy/`` says only what the command line knows."""

import re

import pytest

from qwenperf.cli.db import command as db
from qwenperf.cli.serve import command as serve


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "kubernetes.yaml"])
def test_deployments_use_options_and_variables_that_exist(repository, name):
    """A renamed option would be found out by whoever deploys it."""
    text = (repository / "deploy" / name).read_text()
    parameters = [*serve.params, *(one for command in db.commands.values() for one in command.params)]
    options = {option for one in parameters for option in one.opts}
    variables = {one.envvar for one in parameters if one.envvar}
    assert (
        set(re.findall(r"(?<=[\s\[\"])--[a-z][a-z-]+", text)) - {"--no-cache-dir", "--create-home", "--from-literal"}
        <= options
    )
    assert set(re.findall(r"QWENPERF_[A-Z]+", text)) <= variables
    assert "serve" in text
