"""A command that measures ends with exit code 4 where another goes on, and leaves nothing behind."""

import json

import pytest
from click.testing import CliRunner

from qwenperf.cli import main


def test_a_command_that_waits_in_vain_says_for_whom(measured_beside, tmp_path):
    result = CliRunner().invoke(main, ["run", "--model", "tiny", "--out", str(tmp_path / "runs"), "--json"])
    assert result.exit_code == 4, result.output
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "MachineBusyError"
    assert f"process {measured_beside.pid} (qwenperf compare main), since " in error["message"]
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_a_run_s_own_processes_go_on(tmp_path, monkeypatch):
    """They would wait for the run that waits for them."""
    (tmp_path / "lock").mkdir()
    monkeypatch.setenv("QWENPERF_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("QWENPERF_LOCK_WAIT", "0")
    arguments = ["run", "--model", "tiny", "--new-tokens", "4", "--trials", "2", "--no-trace", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "runs")])
    assert json.loads(result.stdout)["cases"][0]["status"] == "measured", result.output
