"""Killed at any moment: nothing half there, nothing acknowledged lost. The full count is a command of its own."""

import importlib
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def kills(repository, monkeypatch):
    """The command, as a module."""
    monkeypatch.syspath_prepend(str(repository))
    yield importlib.import_module("benchmarks.service.kills")
    sys.modules.pop("benchmarks.service.kills", None)


def test_a_service_that_is_killed_keeps_what_it_acknowledged(kills, database_url, tmp_path, monkeypatch, repository):
    """Fifteen kills while records and traces come in from four sides; every acknowledged one is whole afterwards."""
    monkeypatch.setenv("PYTHONPATH", str(repository))
    database = "" if database_url.startswith("sqlite") else database_url
    done = kills.kill_often(tmp_path / "data", kills=15, database=database)
    assert done["wrong"] == []
    assert done["acknowledged_runs"] > 15
    assert done["acknowledged_comparisons"] > 0
    assert done["acknowledged_files"] > 0
