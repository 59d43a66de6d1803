"""Records that pages are made of, and pages as trees."""

import importlib.util
from pathlib import Path

import pytest


def _beside(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def samples():
    """What makes records with something of everything."""
    return _beside("sample_records")


@pytest.fixture(scope="session")
def parse():
    """What makes a tree of a page."""
    return _beside("html_tree").parse
