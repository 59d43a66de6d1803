"""What every test runs under: the CPU, strict promotion, checked shapes, and a marker for timed tests."""

import os
from pathlib import Path

import pytest

# Before anything imports JAX: probing for an accelerator takes seconds, and a silent promotion is a bug.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")

PERF = Path(__file__).parent / "perf"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in tests/perf is timed; the marker keeps it out of the ordinary run."""
    for item in items:
        if PERF in item.path.parents:
            item.add_marker(pytest.mark.perf)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parent.parent
