"""Empty stores of each kind, and the makers of runs that go into them."""

import importlib.util
import sys
import uuid
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("store_runs", Path(__file__).with_name("store_runs.py"))


@pytest.fixture(scope="session")
def made():
    """Makers of runs: ``run_of``, ``source_of``, ``write_run``, ``foreign``."""
    module = importlib.util.module_from_spec(_SPEC)
    sys.modules.setdefault("store_runs", module)
    _SPEC.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["folder", "memory"])
def url(request, tmp_path):
    """An empty place of each kind: a folder on a disk, and a URL."""
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid.uuid4().hex}"
