"""github-action-benchmark: dashboards of several tools, and arrays of its two custom tools."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwenperf.errors import FormatError
from qwenperf.formats import github_action
from qwenperf.formats.foreign import Told
from qwenperf.formats.place import Document
from qwenperf.schema import codec
from qwenperf.schema.metrics import Direction
from qwenperf.schema.records import CaseRecord, RunRecord, metric

TOLD = Told(modified_at="2026-01-02T03:04:05+00:00")
PERSON = {"email": "a@b.example", "name": "A", "username": "a"}
COMMIT = {
    "author": PERSON, "committer": PERSON, "distinct": True, "id": "c0ffee" * 6 + "c0de", "message": "Add x",
    "timestamp": "2026-01-01T10:00:00+05:30", "tree_id": "7ree", "url": "https://example.com/commit/c0ffee",
}  # fmt: skip


def entry(tool="customSmallerIsBetter", **changes):
    benches = [
        {"name": "startup", "value": 12.5, "unit": "ms", "range": "± 0.3", "extra": "3 rounds\nquiet"},
        {"name": "memory", "value": 100, "unit": "Megabytes"},
    ]
    return {"commit": COMMIT, "date": 1767225600000, "tool": tool, "benches": benches} | changes


def dashboard(*entries, prefix="window.BENCHMARK_DATA = ", suite="Benchmark", **more):
    data = {"lastUpdate": 1767225600001, "repoUrl": "https://example.com/r", "entries": {suite: list(entries)}}
    return prefix + json.dumps(data | more, indent=2)


def read(text):
    return github_action.read_dashboard([Document(name="data.js", text=text)], TOLD)


def test_an_entry_is_a_run_at_its_commit():
    """Benches are cases; words for people stay words."""
    (run,) = read(dashboard(entry()))
    assert run.suite == "Benchmark"
    assert run.created_at == "2026-01-01T00:00:00+00:00"
    assert run.commit == {"sha": COMMIT["id"], "committed_at": "2026-01-01T04:30:00+00:00"}
    startup, memory = (case.metrics["value"] for case in run.cases)
    assert (startup.value, startup.unit, startup.direction) == (12.5, "ms", Direction.LOWER)
    assert startup.extra == {"github-action": {"range": "± 0.3", "extra": "3 rounds\nquiet"}}
    assert (memory.unit, memory.extra) == ("Megabytes", {})


@pytest.mark.parametrize("tool", sorted(github_action.BIGGER_TOOLS | github_action.SMALLER_TOOLS))
def test_the_tool_says_which_way_numbers_improve(tool):
    """The action's own table: pytest's are operations per second, criterion's are times."""
    (run,) = read(dashboard(entry(tool)))
    bigger = tool in {"benchmarkjs", "pytest", "customBiggerIsBetter"}
    assert run.cases[0].metrics["value"].direction is (Direction.HIGHER if bigger else Direction.LOWER)


def test_a_tool_that_came_later_is_kept_and_remarked_upon():
    """Its numbers are facts until somebody knows their direction."""
    (run,) = read(dashboard(entry("zig")))
    assert run.cases[0].metrics["value"].direction is Direction.NONE
    assert [finding.code for finding in run.findings] == ["direction-unknown"]
    assert json.loads(github_action.write_dashboard([run])[0].text.split("=", 1)[1])["entries"]["Benchmark"] == [
        entry("zig")
    ]


@pytest.mark.parametrize("prefix", ["window.BENCHMARK_DATA = ", "window.BENCHMARK_DATA=", "", "\n"])
def test_the_prefix_may_be_there_or_not(prefix):
    """A page that loads the data may have taken it off."""
    assert len(read(dashboard(entry(), prefix=prefix))) == 1
    assert len(read(dashboard(entry(), prefix=prefix) + ";\n")) == 1


def test_several_suites_and_commits_are_runs_of_their_own():
    """In the order of the file."""
    later = entry(commit=COMMIT | {"id": "d" * 40}, date=1767312000000)
    text = dashboard(entry(), later)
    runs = read(text)
    assert [run.commit["sha"] for run in runs] == [COMMIT["id"], "d" * 40]
    assert len({run.id for run in runs}) == 2


def test_benches_of_one_name_in_an_entry_are_readings_of_one_case():
    """`go test -count 3` writes each three times; they are written back as they were."""
    benches = [{"name": "fib", "value": value, "unit": "ns/op", "extra": f"{value} times"} for value in (3, 1, 8)]
    runs = read(dashboard(entry("go", benches=[*benches, {"name": "other", "value": 1, "unit": "ns/op"}])))
    fib, other = runs[0].cases
    assert (fib.id, fib.metrics["value"].value, fib.metrics["value"].samples) == ("Benchmark/fib", 3.0, (3.0, 1.0, 8.0))
    assert (other.metrics["value"].samples, fib.metrics["value"].direction) == ((), Direction.LOWER)
    again = [codec.loads(codec.dumps(run)) for run in runs]
    written = json.loads(github_action.write_dashboard(again)[0].text.split("=", 1)[1])["entries"]["Benchmark"]
    assert written == [entry("go", benches=[*benches, {"name": "other", "value": 1, "unit": "ns/op"}])]


def test_benches_of_one_name_in_two_suites_are_two_cases():
    """`fib` in Go and in Rust are no history of each other; each is written back under its own name."""
    data = {"lastUpdate": 1, "repoUrl": "", "entries": {suite: [entry(suite=suite)] for suite in ("Go", "Rust")}}
    runs = read(json.dumps(data))
    assert [case.id for run in runs for case in run.cases] == [
        "Go/startup", "Go/memory", "Rust/startup", "Rust/memory",
    ]  # fmt: skip
    assert json.loads(github_action.write_dashboard(runs)[0].text.split("=", 1)[1])["entries"] == data["entries"]


def test_a_dashboard_is_the_same_after_a_round_through_run_json():
    """Every field of commit, entry and bench, also those that nobody here knows."""
    other = entry("pytest", commit=COMMIT | {"id": "d" * 40}, date=1767312000000, later={"added": [1, None]})
    other["benches"][0]["since"] = 3
    text = dashboard(entry(), other)
    runs = [codec.loads(codec.dumps(run)) for run in read(text)]
    (document,) = github_action.write_dashboard(runs)
    assert document.text.startswith("window.BENCHMARK_DATA = {")
    assert json.loads(document.text.split("=", 1)[1])["entries"] == json.loads(text.split("=", 1)[1])["entries"]


def test_numbers_written_as_text_are_numbers():
    """Dashboards in the wild have them, and benches without a unit."""
    benches = [{"name": "a", "value": "31"}, {"name": "b", "value": "8.5e1", "unit": ""}]
    (run,) = read(dashboard(entry(benches=benches)))
    assert [case.metrics["value"].value for case in run.cases] == [31.0, 85.0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"benches": [{"name": "a", "value": "fast"}]}, r"entries.Benchmark\[0\].benches\[0\].value is 'fast'"),
        ({"benches": [{"name": "a", "value": "nan"}]}, "value is nan"),
        ({"benches": [{"name": "a", "value": None}]}, "value is missing, which is not a number"),
        ({"benches": [{"name": "a", "value": float("inf")}]}, "value is inf"),
        ({"benches": [{"value": 1}]}, r"benches\[0\].name is missing"),
        ({"benches": [{"name": "a", "value": 1, "range": 3}]}, "range is 3, which is not text"),
        (
            {"benches": [{"name": "a", "value": 1, "unit": unit} for unit in ("ms", "s")]},
            "has another unit than the first 'Benchmark/a': 'ms' and 's'",
        ),
        ({"date": "yesterday"}, "date is 'yesterday', which is not a number"),
        ({"date": 1e30}, "which is not a number of milliseconds"),
        ({"commit": {"id": 1}}, "commit.id is 1, which is not text"),
        ({"commit": {"id": "a", "timestamp": "noon"}}, "timestamp is 'noon', which is not a time"),
        ({"tool": 3}, "tool is 3, which is not text"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(changes, told):
    """File, suite, entry and bench."""
    with pytest.raises(FormatError, match=told):
        read(dashboard(entry(**changes)))


def test_an_array_has_its_direction_from_the_format():
    """And what it does not say is taken from the file."""
    text = json.dumps(entry()["benches"])
    (run,) = github_action.read_bigger([Document(name="out.json", text=text)], TOLD)
    assert run.cases[0].metrics["value"].direction is Direction.HIGHER
    assert run.created_at == TOLD.modified_at
    (document,) = github_action.write_bigger([run])
    assert json.loads(document.text) == json.loads(text)
    with pytest.raises(FormatError, match="no metric of which lower is better"):
        github_action.write_smaller([run])


def test_a_run_of_ours_becomes_a_suite_for_each_direction():
    """The action judges a suite one way: tokens per second and seconds cannot share one."""
    metrics = {
        "tpot_s": metric("tpot_s", 0.2, interval=(0.1, 0.25)),
        "decode_tokens_per_s": metric("decode_tokens_per_s", 5.0),
        "cache_hits": metric("cache_hits", 3),
    }
    case = CaseRecord(id="m/cached", spec={}, metrics=metrics)
    run = RunRecord(
        id="r",
        created_at="2026-01-01T00:00:00+00:00",
        suite="ladder",
        environment={},
        cases=(case,),
        commit={"sha": "a"},
    )
    (document,) = github_action.write_dashboard([run])
    entries = json.loads(document.text.split("=", 1)[1])["entries"]
    lower, higher = entries["ladder (lower is better)"][0], entries["ladder (higher is better)"][0]
    assert (lower["tool"], higher["tool"]) == ("customSmallerIsBetter", "customBiggerIsBetter")
    assert lower["benches"] == [{"name": "m/cached tpot_s", "value": 0.2, "unit": "s", "range": "± 0.1"}]
    assert [one["name"] for one in higher["benches"]] == ["m/cached decode_tokens_per_s"]
    with pytest.raises(FormatError, match="says no commit"):
        github_action.write_dashboard([RunRecord(**{**vars(run), "commit": {}})])


NAMES = st.text(min_size=1, max_size=20)
BENCH = st.fixed_dictionaries(
    {"name": NAMES, "value": st.floats(allow_nan=False, allow_infinity=False)},
    optional={"unit": st.text(min_size=1, max_size=8), "range": st.text(max_size=8), "extra": st.text(max_size=8)},
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(BENCH, min_size=1, max_size=5, unique_by=lambda one: one["name"]))
def test_any_array_comes_back(benches):
    """Whatever names, units and numbers."""
    (run,) = github_action.read_smaller([Document(name="x", text=json.dumps(benches))], TOLD)
    (document,) = github_action.write_smaller([run])
    assert json.loads(document.text) == [{"unit": ""} | bench for bench in benches]
