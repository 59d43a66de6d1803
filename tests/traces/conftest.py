"""Profiles of any kind, written to a file."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("xspaces", Path(__file__).with_name("xspaces.py"))


@pytest.fixture(scope="session")
def xspaces():
    """The encoder of profiles."""
    module = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(module)
    return module


@pytest.fixture
def saved(tmp_path, xspaces):
    """Write planes to a file and return it."""

    def save(*planes, **more):
        file = tmp_path / "host.xplane.pb"
        file.write_bytes(xspaces.space(*planes, **more))
        return file

    return save
