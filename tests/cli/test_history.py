"""``history``, ``merge`` and ``store``: what they print, write and end with."""

import importlib.util
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.cli.since import read_since
from qwenperf.errors import UsageError
from qwenperf.measure.capture_folder import under_way

_SPEC = importlib.util.spec_from_file_location("store_runs", Path(__file__).parents[1] / "store" / "store_runs.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


def run(*arguments, code=0):
    """What a command prints; it must end with ``code``."""
    result = CliRunner().invoke(main, [str(word) for word in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A project in a folder of its own, whose runs lie where ``qwenperf run`` leaves them."""
    monkeypatch.setenv("QWENPERF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("QWENPERF_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    for day in range(4):
        made.write_run(tmp_path / "profiles", made.run_of(day, value=0.01 + 0.001 * day))
    return tmp_path


def test_the_history_of_the_projects_own_runs_needs_no_store():
    """A drawing, a row a point, and what the numbers are."""
    shown = run("history", made.CASE, "tpot_s").stdout
    assert "4x128/cached/b1  tpot_s" in shown
    assert "s, lower is better, timed; 4 points" in shown
    assert re.search(r"2026-01-04 +00000000 +13\.0 ms +\+-10\.0% +\+8\.3%", shown)


def test_json_is_the_series():
    """With interval, commit and machine of every point, and without prose."""
    told = json.loads(run("history", made.CASE, "tpot_s", "--last", 2, "--json").stdout)
    (series,) = told["series"]
    assert (told["store"], told["problems"]) == ("profiles", [])
    assert (series["case"], series["metric"], series["unit"], series["direction"]) == (
        made.CASE,
        "tpot_s",
        "s",
        "lower",
    )
    assert [point["value"] for point in series["points"]] == pytest.approx([0.012, 0.013])
    assert series["points"][1]["commit"] == f"{3:040x}"
    assert series["points"][1]["interval"] == pytest.approx([0.0117, 0.0143])
    assert series["changes"] == []


def test_changes_that_nobody_looked_for_are_null(project, monkeypatch):
    """Without asv, of which a warning says so, and where all metrics are asked for: an empty list would mean none."""
    for day in range(4, 14):
        made.write_run(project / "profiles", made.run_of(day, value=0.01 + 0.0001 * (day % 3)))
    monkeypatch.setitem(sys.modules, "asv.step_detect", None)
    done = run("history", made.CASE, "tpot_s", "--json")
    assert json.loads(done.stdout)["series"][0]["changes"] is None
    assert "qwenperf[history]" in done.stderr
    newest = json.loads(run("history", made.CASE, "--json").stdout)["series"]
    assert {one["changes"] for one in newest} == {None}


def test_a_page_is_written_whole(project):
    """It needs nothing else, and says on stderr where it is."""
    result = run("history", made.CASE, "tpot_s", "--html", "h.html")
    assert result.stdout == ""
    assert "wrote h.html" in result.stderr
    page = (project / "h.html").read_text()
    assert "tpot_s of 4x128/cached/b1" in page
    assert page.count("<svg ") == 1
    assert "error: cannot write no/h.html" in run("history", made.CASE, "tpot_s", "--html", "no/h.html", code=2).stderr


def test_a_part_of_the_history_is_asked_for_by_flags():
    """By age, commit, branch, machine and number."""

    def days(*flags):
        told = json.loads(run("history", made.CASE, "tpot_s", "--json", *flags).stdout)
        return [int(point["run"][-1]) for point in told["series"][0]["points"]]

    assert days("--since", "2026-01-03") == [2, 3]
    assert days("--since", f"{2:040x}") == [2, 3]
    assert days("--branch", "main", "--environment", "cpu-x86_64-2core", "--last", "1") == [3]
    assert "has no point of tpot_s" in run("history", made.CASE, "tpot_s", "--branch", "none", code=5).stderr
    assert "begins no commit" in run("history", made.CASE, "tpot_s", "--since", "abcd", code=2).stderr


def test_without_a_metric_all_of_a_case_are_shown():
    """And without a case, the cases."""
    shown = run("history", made.CASE).stdout
    assert re.search(r"tpot_s +13\.0 ms +\+8\.3% +lower +4", shown)
    assert "peak_bytes" in shown
    assert run("history").stdout == "4x128/cached/b1  (2 metrics)\n"
    assert json.loads(run("history", "--json").stdout)["cases"] == {made.CASE: ["peak_bytes", "tpot_s"]}
    assert "Name a CASE" in run("history", "--branch", "main", code=2).stderr


def test_a_glob_is_several_cases(project):
    """Those that have the metric."""
    made.write_run(project / "profiles", made.run_of(9, case="4x128/naive/b1"))
    made.write_run(project / "profiles", made.run_of(8, case="other", metrics={"x": made.foreign(1.0)}))
    told = json.loads(run("history", "*", "tpot_s", "--json").stdout)
    assert [series["case"] for series in told["series"]] == [made.CASE, "4x128/naive/b1"]


def test_unknown_names_offer_the_nearest():
    """Exit code 2, one line."""
    assert "Did you mean '4x128/cached/b1'" in run("history", "4x128/cachd/b1", "tpot_s", code=2).stderr
    assert "Did you mean 'tpot_s'" in run("history", made.CASE, "tpot", code=2).stderr
    assert "there is no" in run("history", made.CASE, "tpot_s", "--store", "nowhere", code=2).stderr


def test_what_cannot_be_read_is_said_beside_what_can(project):
    """On stderr; the rest is shown."""
    (project / "profiles" / "run-0001" / "run.json").write_text("{")
    result = run("history", made.CASE, "tpot_s")
    assert "3 points" in result.stdout
    assert "warning: left out: profiles/run-0001: run.json is not JSON" in result.stderr


def test_renamed_cases_are_told_by_the_project(project):
    """``[tool.qwenperf.aliases]`` joins what was measured under both names."""
    made.write_run(project / "profiles", made.run_of(9, case="new"))
    (project / "pyproject.toml").write_text(f'[tool.qwenperf.aliases]\n"{made.CASE}" = "new"\n')
    shown = run("history", made.CASE, "tpot_s").stdout
    assert "new  tpot_s" in shown
    assert "5 points" in shown
    assert f"formerly: {made.CASE}." in shown
    (project / "pyproject.toml").write_text('[tool.qwenperf.aliases]\na = "b"\nb = "a"\n')
    assert "leads in a circle: 'a' -> 'b' -> 'a'" in run("history", code=2).stderr


def test_runs_are_added_to_a_store_once(project):
    """From folders, records and folders of runs; with their traces, or without."""
    first = run(
        "store", "add", "profiles/run-0000", "profiles/run-0001/run.json", "--store", "kept", "--no-traces"
    ).stdout
    assert first == "added: run-0000\nadded: run-0001\n"
    assert not (project / "kept/run-0000/plugins").exists()
    told = json.loads(run("store", "add", "profiles", "--store", "kept", "--json").stdout)
    assert [one["result"] for one in told["runs"]] == ["completed", "completed", "added", "added"]
    assert (project / "kept/run-0000/plugins/profile/s/host.xplane.pb").is_file()
    assert not (project / "kept/run-0000/cases").exists()
    listed = json.loads(run("store", "list", "--store", "kept", "--json").stdout)["runs"]
    assert [one["run"] for one in listed] == [f"run-000{day}" for day in range(4)]
    assert "4 runs in kept" in run("store", "list", "--store", "kept").stdout


def test_nothing_is_added_where_one_of_the_runs_cannot_be_read(project):
    """What is named wrongly is said before anything is written."""
    assert (
        "cannot read missing" in run("store", "add", "profiles/run-0000", "missing", "--store", "kept", code=2).stderr
    )
    assert not (project / "kept").exists()


def test_a_run_that_is_being_measured_is_left_alone(project):
    """Half of it would stand in the store for good."""
    with under_way(project / "profiles/run-0001"):
        result = run("store", "add", "profiles/run-0001", "--store", "kept", code=2)
        assert "profiles/run-0001 is being measured" in result.stderr
        result = run("store", "add", "profiles", "--store", "kept")
    assert "profiles/run-0001 is being measured, and left out" in result.stderr
    assert sorted(path.name for path in (project / "kept").iterdir()) == ["run-0000", "run-0002", "run-0003"]


def test_links_in_a_run_are_not_followed(project):
    """What they lead to is somebody else's."""
    (project / "secret").write_text("secret")
    (project / "profiles/run-0000/link").symlink_to(project / "secret")
    run("store", "add", "profiles/run-0000", "--store", "kept")
    assert not (project / "kept/run-0000/link").exists()


def test_the_store_is_a_setting(project, monkeypatch):
    """In the file, the environment, or a flag."""
    (project / "pyproject.toml").write_text('[tool.qwenperf]\nstore = "kept"\n')
    run("store", "add", "profiles/run-0000")
    assert (project / "kept/run-0000/run.json").is_file()
    monkeypatch.setenv("QWENPERF_STORE", "other")
    run("store", "add", "profiles/run-0000")
    assert (project / "other/run-0000/run.json").is_file()


def test_a_store_is_looked_over_and_made_anew(project):
    """Exit code 2 where something is wrong; what killed writers left is removed when that is asked for."""
    assert run("store", "reindex").stdout == "4 runs, 4 series, 16 points\n"
    assert run("store", "check").stdout == "4 runs, 0 problems, 0 unfinished\n"
    (project / "profiles/.incoming-x").mkdir()
    (project / "profiles/run-0000/run.json").write_text("{}")
    shown = run("store", "check", code=2).stdout
    assert "run-0000: " in shown
    assert ".incoming-x: unfinished" in shown
    told = json.loads(run("store", "check", "--clean", "--json", code=2).stdout)
    assert (told["runs"], told["unfinished"], [one["folder"] for one in told["problems"]]) == (
        3,
        [".incoming-x"],
        ["run-0000"],
    )
    assert not (project / "profiles/.incoming-x").exists()


def shard(project, name, session=None, **changes):
    record = made.run_of(0, case=name, id=f"shard-{name}", **changes)
    return made.write_run(project / "shards", record, session or name)


def test_shards_are_merged_and_judged_as_a_whole(project):
    """Cases, traces and logs of all parts; the exit code is that of the whole."""
    places = [shard(project, name) for name in "ab"]
    told = json.loads(run("merge", *places, "--out", "whole", "--json").stdout)
    folder = Path(told["folder"])
    assert [case["id"] for case in told["cases"]] == ["a", "b"]
    traces = [(folder / "plugins/profile" / name / "host.xplane.pb").read_text() for name in "ab"]
    assert traces == ["trace of shard-a", "trace of shard-b"]
    assert json.loads((folder / "run.json").read_text())["declared"] == ["a", "b"]
    again = run("merge", "shards", "--out", "whole")
    assert "already there" in again.stderr
    assert len(list((project / "whole").iterdir())) == 1
    (project / "other.toml").write_text('[tool.qwenperf.budgets."a"]\ntpot_s = { max = 1.0 }\n')
    refused = run("merge", "shards", "--out", "whole", "--budgets", "other.toml", code=2)
    assert "is the merge of these runs, judged by other budgets. Remove that folder" in refused.stderr


def test_shards_that_stay_beside_the_whole_are_named(project):
    """A history of that folder would have each value twice; elsewhere they do no harm."""
    places = [shard(project, name) for name in "ab"]
    said = run("merge", places[0], "shards/shard-b/run.json", "--out", "shards").stderr
    assert "warning: shard-a, shard-b lie in shards too" in said
    assert "warning" not in run("merge", *places, "--out", "whole").stderr


def test_a_case_that_no_shard_measured_is_missing(project):
    """Exit code 5: silence is not green."""
    shard(project, "a", declared=("a", "z"))
    run("merge", shard(project, "b"), project / "shards/shard-a", "--out", "whole", code=5)


def test_shards_that_are_not_of_one_run_are_refused(project):
    """Nothing is written."""
    places = shard(project, "a"), shard(project, "b", suite="quick")
    assert (
        "suite is 'smoke' in shard-a and 'quick' in shard-b" in run("merge", *places, "--out", "whole", code=2).stderr
    )
    assert not (project / "whole").exists()


def test_traces_of_one_name_and_two_contents_are_refused(project):
    """One of them would be lost."""
    places = shard(project, "a", "same"), shard(project, "b", "same")
    assert "would be one file" in run("merge", *places, "--out", "whole", code=2).stderr


NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("28d", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2w", datetime(2026, 2, 15, tzinfo=UTC)),
        ("24h", datetime(2026, 2, 28, tzinfo=UTC)),
        ("999999w", datetime.min.replace(tzinfo=UTC)),
        ("abcd", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
    ],
)
def test_since_is_a_date_an_age_or_a_commit(text, meant):
    """As people write them."""
    assert read_since(text, NOW, lambda prefix: [(prefix * 10, 60.0)]) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yesterday", "no date, age or commit"),
        ("2026-13-01", "is no date"),
        ("", "no date, age"),
        ("abcd", "begins 2 commits"),
    ],
)
def test_since_that_means_nothing_is_refused(text, message):
    """With what it may be."""
    with pytest.raises(UsageError, match=f"{message}.*Give a date"):
        read_since(text, NOW, lambda _: [("abcd1", 1.0), ("abcd2", 2.0)])


def test_what_no_reader_can_read_back_is_not_added(project):
    """Nor what a writer has left, nor what would be gone with the command."""
    deep = project / "deep"
    deep.mkdir()
    text = made.dumps(made.run_of(9))
    (deep / "run.json").write_text(text.replace('"suite"', f'"extra": {{"a": {"[" * 300}{"]" * 300}}}, "suite"'))
    assert "nested too deeply" in run("store", "add", deep, "--store", "s", code=2).stderr
    (project / "profiles" / "run-0003").rename(project / "profiles" / ".incoming-run-0003-1")
    assert "run-0003" not in run("store", "add", "profiles", "--store", "s").stdout
    assert "is forgotten" in run("store", "add", "profiles", "--store", "memory://x", code=2).stderr


def test_numbers_and_names_that_no_index_takes():
    """A window of more than everything is everything; a name that is not UTF-8 is told."""
    assert "4 points" in run("history", made.CASE, "tpot_s", "--last", 10**30).stdout
    assert "is not UTF-8" in run("history", made.CASE, "tpot_s", "--branch", "\udcff", code=2).stderr


def test_what_a_run_is_called_does_not_steer_a_terminal(project):
    """Neither in a warning nor in an error."""
    bad = project / "profiles" / "bad\x1b[32m\nqwenperf: all is well"
    bad.mkdir()
    (bad / "run.json").write_text("{")
    said = run("history", made.CASE, "tpot_s").stderr
    assert "bad?[32m?qwenperf" in said
    assert "\x1b" not in run("history", "no\x1b[31m", code=2).stderr


def test_a_refused_run_says_which_were_added_before_it(project):
    """Also where JSON was asked for and holds the error alone."""
    run("store", "add", "profiles/run-0001", "--store", "s")
    other = made.write_run(project / "others", made.run_of(1, value=9.0))
    told = json.loads(run("store", "add", "profiles/run-0000", other, "--store", "s", "--json", code=2).stdout)
    assert "another run with the id 'run-0001'. Added before: run-0000." in told["error"]["message"]


def test_a_page_takes_the_place_of_a_page_and_of_nothing_else(project):
    """A record would be lost, and a pipe has nobody who reads."""
    os.mkfifo(project / "pipe")
    record = project / "profiles" / "run-0001" / "run.json"
    before = record.read_text()
    for file in (record, project / "pipe", project):
        said = run("history", made.CASE, "tpot_s", "--html", file, code=2).stderr
        assert "is there, and is no page" in said.replace("\n", " ")
    assert record.read_text() == before
    for _ in range(2):
        run("history", made.CASE, "tpot_s", "--html", project / "page.html")
    assert (project / "page.html").read_text().lower().startswith("<!doctype")


def test_a_list_has_whole_ids_and_nothing_behind_its_lines(project):
    """A pipe's reader takes the first word of a line, however long an id is."""
    name = "run-" + "0123456789" * 12
    made.write_run(project / "profiles", made.run_of(9, id=name))
    lines = run("store", "list").stdout.splitlines()
    assert any(line.split()[:1] == [name] for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--branch", "mian"), "--branch is 'mian'. Did you mean 'main'? Known: main."),
        (("--environment", "cpuu"), "--environment is 'cpuu'. Known: cpu-x86_64-2core."),
        (("--branch", "main", "--since", "2036-01-01"), "Ask for more, or another branch."),
    ],
)
def test_a_branch_or_an_environment_that_nobody_has_names_the_known_ones(flags, told):
    """A slip of the pen is no empty history."""
    assert told in run("history", made.CASE, "tpot_s", *flags, code=5).stderr
