"""``qwenperf convert`` in real processes and in this one."""

import json
import os
from pathlib import Path

import pytest

from qwenperf.cli.group import main
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import RunRecord

BMF = {"decode": {"latency": {"value": 2.5, "lower_value": 2.0, "upper_value": 3.0}}}


@pytest.fixture
def convert(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder, and return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["convert", *map(str, words)])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


@pytest.fixture
def bmf(tmp_path):
    file = tmp_path / "bmf.json"
    file.write_text(json.dumps(BMF))
    os.utime(file, (1767225600, 1767225600))
    return file


def test_a_report_becomes_a_run_folder_and_goes_back(convert, bmf, tmp_path):
    """By content alone; what a file does not say is told on stderr."""
    code, out, err = convert(bmf, "--commit", "c" * 40, "--out", "runs")
    assert code == 0
    (file,) = (tmp_path / "runs").glob("*/run.json")
    assert out.strip() == str(file.relative_to(tmp_path))
    assert "note:" in err
    assert "2026-01-01T00:00:00+00:00" in err
    assert json.loads(file.read_text())["commit"] == {"sha": "c" * 40}
    code, out, _ = convert("runs", "--to", "bencher")
    assert (code, json.loads(out)) == (0, BMF)
    code, out, _ = convert(file, "--to", "github-action-smaller")
    assert json.loads(out)[0]["value"] == 2.5


def test_what_a_run_says_itself_is_not_overruled(convert, bmf, tmp_path):
    """And what it does not say is added to it, whoever measured it."""
    assert convert(bmf, "--out", "runs", "--at", "2026-01-02T00:00:00Z")[0] == 0
    code, _, err = convert("runs", "--to", "asv", "--out", "asv")
    assert (code, "says no commit" in err) == (2, True)
    said = ("--commit", "c" * 40, "--committed-at", "2026-01-01T12:00:00+05:30")
    assert convert("runs", "--to", "asv", "--out", "asv", *said)[0] == 0
    (file,) = (tmp_path / "asv").rglob("cccccccc-*.json")
    assert json.loads(file.read_text())["date"] == 1767249000000
    code, _, err = convert("runs", "--at", "2026-02-02T00:00:00Z")
    assert code == 2
    assert "own time is 2026-01-02T00:00:00+00:00" in err


def test_json_says_what_was_read_and_written(convert, bmf):
    """One document, with the text of the files where none were written."""
    code, out, _ = convert(bmf, "--at", "2026-02-03T04:05:06Z", "--suite", "nightly", "--json", "--to", "openmetrics")
    told = json.loads(out)
    assert code == 0
    assert told["runs"][0] | {"id": ""} == {
        "id": "", "suite": "nightly", "created_at": "2026-02-03T04:05:06+00:00", "commit": "", "cases": 1, "metrics": 1,
        "findings": [],
    }  # fmt: skip
    assert told["documents"][0]["text"].endswith("# EOF\n")
    assert told["written"] == []


def test_nothing_is_overwritten_unasked(convert, bmf, tmp_path):
    """A dashboard is somebody's history. What is the same already may stay."""
    (tmp_path / "out.json").write_text("precious")
    code, _, err = convert(bmf, "--to", "bencher", "--out", "out.json")
    assert (code, (tmp_path / "out.json").read_text()) == (2, "precious")
    assert "out.json is there already" in err
    assert convert(bmf, "--to", "bencher", "--out", "out.json", "--force")[0] == 0
    assert convert(bmf, "--to", "bencher", "--out", "out.json")[0] == 0
    assert json.loads((tmp_path / "out.json").read_text()) == BMF
    assert "is a folder" in convert(bmf, "--to", "bencher", "--out", ".")[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("absent.json",), "absent.json is not there"),
        ((".",), "there is no run and no JSON in"),
        (("odd.json",), "cannot tell the format of odd.json"),
        (("odd.json", "--from", "bencher"), "odd.json: the document is [], which is not an object"),
        (("odd.json", "--from", "excel"), "'excel' is not one of"),
        (("odd.json", "--at", "noon"), "--at is 'noon', which is no time"),
        ((), "Missing argument 'FILE...'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(convert, tmp_path, words, told):
    """Exit code 2, and no traceback."""
    if words and words[0] == "odd.json":
        (tmp_path / "odd.json").write_text("[]")
    code, out, err = convert(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_a_result_of_asv_finds_what_says_its_units(convert, tmp_path):
    """Beside it and above it; a whole folder too. Several runs want a folder."""
    folder = tmp_path / "results" / "m"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(json.dumps({"machine": "m", "version": 1}))
    one = {"name": "a.track_x", "type": "track", "unit": "flops", "version": "1", "params": [], "param_names": []}
    (tmp_path / "results" / "benchmarks.json").write_text(json.dumps({"a.track_x": one, "version": 2}))
    for sha in "ab":
        result = {
            "commit_hash": sha * 40, "date": 1767225600000, "params": {"machine": "m"}, "env_name": "e", "version": 2,
            "result_columns": ["result", "params", "version"], "results": {"a.track_x": [[7.0], [], "1"]},
        }  # fmt: skip
        (folder / f"{sha * 8}-e.json").write_text(json.dumps(result))
    code, out, _ = convert(folder / "aaaaaaaa-e.json")
    assert code == 0
    assert json.loads(out)["cases"][0]["metrics"]["value"]["unit"] == "flops"
    code, _, err = convert("results")
    assert code == 2
    assert "Give a folder with --out" in err
    assert convert("results", "--out", "runs")[0] == 0
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 2


@pytest.mark.slow
def test_results_of_asv_are_read_again_after_a_benchmark_has_changed(convert, tmp_path):
    """The list of benchmarks beside them is another one: what was read before stays, and what is new is read."""
    folder = tmp_path / "results" / "m"
    folder.mkdir(parents=True)
    one = {"name": "a.track_x", "type": "track", "unit": "flops", "version": "1", "params": [], "param_names": []}
    for version, sha in (("1", "a"), ("2", "b")):
        listed = {"a.track_x": one | {"version": version}, "version": 2}
        (tmp_path / "results" / "benchmarks.json").write_text(json.dumps(listed))
        result = {
            "commit_hash": sha * 40, "date": 1767225600000, "params": {"machine": "m"}, "env_name": "e", "version": 2,
            "result_columns": ["result", "params", "version"], "results": {"a.track_x": [[7.0], [], version]},
        }  # fmt: skip
        (folder / f"{sha * 8}-e.json").write_text(json.dumps(result))
        code, _, err = convert("results", "--out", "runs")
        assert code == 0, err
    assert "1 of them were read before and stay as they are" in err
    ids = [json.loads(file.read_text())["cases"][0]["id"] for file in (tmp_path / "runs").glob("*/run.json")]
    assert ids == ["a.track_x"] * 2
    assert convert("results", "--out", "runs", "--force")[0] == 0
    ids = [json.loads(file.read_text())["cases"][0]["id"] for file in (tmp_path / "runs").glob("*/run.json")]
    assert sorted(ids) == ["a.track_x", "a.track_x#1"]


def test_a_measured_run_becomes_every_format(tiny_run, cli, convert, tmp_path):
    """What `qwenperf run` leaves; once also in a process of its own."""
    said = ("--commit", "a" * 40, "--committed-at", "2026-01-01T00:00:00Z")
    for name in ("asv", "pytest-benchmark", "github-action", "vllm", "sglang", "bencher", "openmetrics", "junit"):
        out = tmp_path / name
        code, _, err = convert(tiny_run.folder, "--to", name, "--out", out, *said)
        assert (name, code, err) == (name, 0, "")
        assert out.exists()
    command, _, run = cli
    done = run(command("convert", tiny_run.folder, "--to", "junit", *said), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip() == (tmp_path / "junit").read_text().rstrip()


def a_record(run, **more):
    told = {"id": run, "created_at": "2026-01-01T00:00:00Z", "suite": "s", "environment": {}} | more
    return dumps(RunRecord(**told))


def test_nothing_is_written_outside_the_folder(convert, tmp_path):
    """Ids and machines come from files, and files from anywhere."""
    (tmp_path / "run.json").write_text(a_record("../../evil"))
    code, out, err = convert("run.json", "--out", "deep/out")
    assert (code, Path(out.strip()).parts[:2]) == (0, ("deep", "out")), err
    name = {"machine": "../../up", "env_name": "../../e"}
    result = {
        "commit_hash": "a" * 40, "date": 1767225600000, "params": {"machine": name["machine"]}, "version": 2,
        "env_name": name["env_name"], "result_columns": ["result", "params", "version"],
        "results": {"a.track_x": [[7.0], [], "1"]},
    }  # fmt: skip
    (tmp_path / "odd.json").write_text(json.dumps(result))
    code, _, err = convert("odd.json", "--to", "asv", "--out", "deep/asv")
    assert code == 0, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "odd.json", "run.json"]
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["asv", "out"]


def test_two_runs_of_one_id_are_not_one(convert, tmp_path):
    """The last would be all that is left; the same one twice is one."""
    for name, suite in (("a", "s"), ("b", "s"), ("c", "other")):
        (tmp_path / f"{name}.json").write_text(a_record("r", suite=suite))
    assert convert("a.json", "b.json", "--out", "same")[0] == 0
    code, _, err = convert("a.json", "c.json", "--out", "out")
    assert (code, "two of them would be out/r/run.json" in err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_what_no_tool_writes_is_told_in_one_line(convert, bmf, tmp_path):
    """Lists in lists without end, and no time in a calendar."""
    for name, levels in (("deep", 101), ("deepest", 100_000)):
        nested = "[" * levels + "]" * levels
        (tmp_path / f"{name}.json").write_text(f'{{"a": {{"latency": {{"value": 1.0, "extra": {nested}}}}}}}')
    (tmp_path / "run.json").write_text(a_record("r", created_at="soon"))
    for words in (
        ("deep.json",), ("deepest.json",), ("run.json",), (bmf, "--at", "0001-01-01T00:00:00+14:00"),
        ("run.json", "--to", "openmetrics"),
    ):  # fmt: skip
        code, out, err = convert(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1), (words, err)


def test_a_folder_that_a_writer_left_is_no_run(convert, tmp_path):
    """Stores keep what is not finished under a name with a dot."""
    for name in (".incoming-r-1", "r"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(a_record(name))
    code, out, _ = convert("runs", "--json")
    assert (code, [run["id"] for run in json.loads(out)["runs"]]) == (0, ["r"])
