"""A GitHub on this machine, and what to say to it."""

import importlib.util
import sys
from pathlib import Path

import pytest

from qwenperf.forge.api import GitHub
from qwenperf.forge.report import Report
from qwenperf.forge.target import Target


def _beside(name, known):
    """Load a module that lies beside this one, once for all that call it ``known``."""
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
        module = sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[known]


stand_in, receivers = _beside("stand_in", "github_stand_in"), _beside("receiver", "webhook_receiver")
receiver = receivers.receiver


@pytest.fixture(scope="session")
def samples_of_report():
    """What makes records with something of everything."""
    place = Path(__file__).parents[1] / "report" / "sample_records.py"
    spec = importlib.util.spec_from_file_location("sample_records_of_forge", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def github():
    """A GitHub that has seen no request which its description forbids, and has nothing of its own to be ashamed of."""
    server = stand_in.GitHubStandIn()
    yield server
    server.close()
    assert server.troubles == []
    assert server.failures == [], "a planted failure was never met"


@pytest.fixture
def pauses():
    """The pauses that were made, in seconds."""
    return []


@pytest.fixture
def api(github, pauses):
    """GitHub's API, whose clock goes by pauses alone."""
    return GitHub(
        url=github.url, token="ghs_secret", sleep=pauses.append, clock=lambda: sum(pauses), now=lambda: 1000.0
    )


@pytest.fixture
def target():
    """The pull request of the stand-in, as the event of its own repository says."""
    return Target(repository=stand_in.REPOSITORY, sha=stand_in.SHA, pulls=(7,))


@pytest.fixture
def report():
    """A report without annotations."""
    return Report(name="qwenperf", conclusion="success", title="pass", summary="### pass\n")
