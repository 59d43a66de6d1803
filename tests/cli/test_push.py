"""``qwenperf push`` where there is no service: what would be sent, and where it waits."""

import json

import pytest

from qwenperf.cli.push import command

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def push(tmp_path, monkeypatch, capsys):
    """Push to nobody with a cache of its own; returns exit code, JSON and the records that wait, by case."""
    for name in ("URL", "TOKEN", "PROJECT", "SPOOL"):
        monkeypatch.delenv(f"QWENPERF_{name}", raising=False)
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))

    def run(*words):
        asked = [*map(str, words), f"--url={NOWHERE}", "--project=p", "--patience=0", "--json"]
        code = command.main(asked, standalone_mode=False)
        records = [json.loads(file.read_text()) for file in (tmp_path / "cache" / "spool").glob("*/record.json")]
        return code, json.loads(capsys.readouterr().out)["pushed"], records

    return run


@pytest.fixture
def results(tmp_path):
    """A results folder of asv with one result."""
    folder = tmp_path / "results" / "m"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(json.dumps({"machine": "m", "cpu": "fast", "version": 1}))
    one = {"name": "a.track_x", "type": "track", "unit": "tokens/s", "version": "1", "params": [], "param_names": []}
    (tmp_path / "results" / "benchmarks.json").write_text(json.dumps({"a.track_x": one, "version": 2}))
    result = {
        "commit_hash": "a" * 40, "date": 1767225600000, "params": {"machine": "m"}, "env_name": "e", "version": 2,
        "result_columns": ["result", "params", "version"], "results": {"a.track_x": [[7.0], [], "1"]},
    }  # fmt: skip
    (folder / "aaaaaaaa-e.json").write_text(json.dumps(result))
    return folder.parent


@pytest.mark.parametrize("named", ["m/aaaaaaaa-e.json", "."])
def test_a_result_of_asv_goes_with_what_says_its_units(push, results, named):
    """Whether the file is named or its folder: an alarm needs to know which way is worse, and on which machine."""
    code, (done,), (record,) = push("--from", "asv", results / named)
    assert (code, done["fate"]) == (0, "spooled")
    seen = record["cases"][0]["metrics"]["value"]
    assert (seen["unit"], seen["direction"], record["environment"]["cpu"]) == ("tokens/s", "higher", "fast")


def test_a_file_that_cannot_be_read_fails_no_job(push, tmp_path):
    """Nor one that is not there; both are told."""
    (tmp_path / "odd.json").write_text("[")
    code, done, records = push("--from", "asv", tmp_path / "odd.json", tmp_path / "nothing")
    assert (code, [one["fate"] for one in done], records) == (0, ["lost", "lost"], [])


def test_no_secret_of_the_command_line_is_printed_or_kept(tmp_path, monkeypatch, capsys):
    """Secrets of CI are pasted with a newline, and a job's log is read by others."""
    monkeypatch.setenv("QWENPERF_TOKEN", "qpf_hunter2\n")
    (tmp_path / "run.json").write_text('{"id": "r"}')
    for url in ("http://me:hunter2@127.0.0.1:9\n", "http://me:hunter2@[", "me:hunter2@127.0.0.1"):
        asked = [str(tmp_path), f"--url={url}", "--project=p\n", "--patience=0", f"--spool-folder={tmp_path / 'spool'}"]
        assert command.main(asked, standalone_mode=False) == 0
    out, err = capsys.readouterr()
    kept = "".join(file.read_text() for file in (tmp_path / "spool").glob("*/parcel.json"))
    assert "hunter2" not in out + err + kept
    assert '"project": "p"' in kept
