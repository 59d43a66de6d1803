"""What a measured side is told by the environment of whoever compares."""

from pathlib import Path

from qwenperf.lab.sides import Side

SECRETS = dict.fromkeys(("QWENPERF_TOKEN", "QWENPERF_GITHUB_APP_KEY", "QWENPERF_WEBHOOK_SECRET"), "hunter2")


def test_a_side_has_none_of_our_secrets_and_what_loads_its_model():
    """It is the code of a pull request; and an older one refuses variables that it does not know."""
    side = Side(name="base", label="main", kind="revision", root=Path("/tree"), python="python")
    told = side.child_environ(SECRETS | {"HF_HOME": "/hub", "QWENPERF_CACHE": "/cache", "PYTHONPATH": "/mine"})
    assert not told.keys() & SECRETS.keys()
    assert (told["HF_HOME"], told["QWENPERF_CACHE"], told["PYTHONPATH"]) == ("/hub", "/cache", "/tree:/mine")
