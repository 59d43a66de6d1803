"""The benchmark of the store asks what it says that it asks; how long that takes is not for a test."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def told(repository, tmp_path_factory):
    """A run of it on eight runs of 500 points."""
    folder = tmp_path_factory.mktemp("filled") / "runs"
    arguments = ["--points", "4000", "--repeats", "1", "--folder", str(folder), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.store", *arguments],
        cwd=repository,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_fills_what_it_was_asked_for(told):
    """Runs, series and points are those of the store's own index."""
    assert (told["runs"], told["series"], told["points"]) == (8, 500, 4000)
    assert told["index_bytes"] > 100_000


def test_every_question_is_answered(told):
    """By the points that the question is about: all, half of the runs, those of one branch."""
    seen = {name: one["points"] for name, one in told["questions"].items()}
    assert seen == {
        "the last 500": 8,
        "500 of one environment": 4,
        "500 of one branch": 6,
        "500 since the middle": 0,
    }
