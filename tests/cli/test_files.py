"""Whatever people name as a file, a command answers with one line and an exit code: no hang, no traceback."""

import os

import pytest
from click.testing import CliRunner

from qwenperf.cli import files, main
from qwenperf.cli.saved_run import read_run
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import RunRecord

RUN = RunRecord(id="r", created_at="2026-11-27T22:05:37+00:00", suite="any", environment={})
LONG = "x" * 5000


def refused(*words):
    """Return the one line with which a command was refused as a wrong use."""
    result = CliRunner().invoke(main, [*words])
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("name", [LONG, f"{LONG}/run.json", "a\0b", "", "nope"])
def test_a_run_that_cannot_be_is_refused(name):
    """Names that no system can have, and no name at all, are names of nothing."""
    assert "qwenperf: error: " in refused("gate", name)
    refused("budgets", "propose", name)


@pytest.mark.parametrize("name", [LONG, "", "nope", "/dev/zero"])
def test_a_budget_file_that_cannot_be_is_refused(name, tmp_path):
    """The same holds for budgets, before the run is read or anything is measured."""
    refused("gate", str(tmp_path), "--budgets", name)
    refused("run", "--dry-run", "--budgets", name)


def test_a_pipe_or_a_device_is_no_record(tmp_path):
    """Reading one would wait, or never end."""
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero"):
        assert "not a regular file" in refused("gate", name)


def test_a_huge_file_is_no_record(tmp_path, monkeypatch):
    """Its size is told and it is not read."""
    monkeypatch.setattr(files, "SIZE_LIMIT", 10)
    (tmp_path / "run.json").write_text(dumps(RUN))
    assert "is more than the 10 B that are read" in refused("gate", str(tmp_path))


def test_a_byte_order_mark_is_not_part_of_a_file(tmp_path):
    """Some editors put one before records and budgets."""
    (tmp_path / "run.json").write_text(dumps(RUN), encoding="utf-8-sig")
    assert read_run(tmp_path)[0] == RUN
    (tmp_path / "b.toml").write_text('[tool.qwenperf.budgets."*"]\ntpot_s = { max = 1 }\n', encoding="utf-8-sig")
    assert CliRunner().invoke(main, ["run", "--dry-run", "--budgets", str(tmp_path / "b.toml")]).exit_code == 0
